import passport from 'passport';
import { Strategy } from 'passport-http-bearer';

const users = new Map([
  ['ann-token', { id: 'u-17', name: 'Ann' }],
  ['bob-token', { id: 'u-18', name: 'Bob' }],
]);

passport.use(new Strategy((token, done) => done(null, users.get(token) ?? false)));

/** 401 without a token that is known; else `req.user` is who it belongs to. */
export const authenticated = passport.authenticate('bearer', { session: false });
