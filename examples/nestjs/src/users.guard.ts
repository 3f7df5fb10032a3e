import { type CanActivate, type ExecutionContext, Injectable, UnauthorizedException } from '@nestjs/common';
import type { Request } from 'express';

export interface User {
  id: string;
  name: string;
}

const users = new Map<string, User>([
  ['Bearer ann-token', { id: 'u-17', name: 'Ann Lee' }],
  ['Bearer bob-token', { id: 'u-18', name: 'Bob Ray' }],
]);

/** Sets `request.user`, as guards of Passport do. */
@Injectable()
export class UsersGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request & { user?: User }>();
    request.user = users.get(request.headers.authorization ?? '');
    if (request.user === undefined) throw new UnauthorizedException();
    return true;
  }
}
