// The application of json-libraries.test.ts: one process publishes what the libraries make, in every way a value can be marked.
import 'reflect-metadata';
import { writeFileSync } from 'node:fs';
import { DbNull, JsonNull, Decimal as PrismaDecimal } from '@prisma/client/runtime/client';
import { Exclude, Expose, instanceToPlain, plainToInstance, Transform, Type } from 'class-transformer';
import dayjs from 'dayjs';
import dayjsDuration from 'dayjs/plugin/duration.js';
import dayjsUtc from 'dayjs/plugin/utc.js';
import Decimal from 'decimal.js';
import { createDraft, enableMapSet, finishDraft, immerable, produce } from 'immer';
import Long from 'long';
import { DateTime, Duration, Interval } from 'luxon';
import { makeAutoObservable, observable, toJS } from 'mobx';
import moment from 'moment';
import mongoose from 'mongoose';
import protobuf from 'protobufjs';
import { PiiField, publishEvent } from 'svc';

const born = '1987-03-01T10:20:30.456Z';
const secret = 'canary@example.com';
dayjs.extend(dayjsDuration);
dayjs.extend(dayjsUtc);
enableMapSet();

class Address {}
class User {
  get initial() {
    return this.name.slice(0, 1);
  }
}
Type(() => Address)(User.prototype, 'address');
Type(() => Date)(User.prototype, 'born');
Exclude()(User.prototype, 'password');
Expose()(User.prototype, 'initial');
Transform(({ value }) => value * 2, { toPlainOnly: true })(User.prototype, 'size');
const user = () =>
  plainToInstance(User, {
    id: 1,
    name: 'Ada',
    secret,
    password: 'pw',
    size: 2,
    born,
    address: { city: 'Berlin', secret: 'street of canary' },
  });

const { Schema, Types } = mongoose;
const author = new Schema({ name: String, secret: String });
const book = new Schema(
  {
    title: String,
    secret: String,
    tags: [String],
    price: Schema.Types.Decimal128,
    big: BigInt,
    long: Schema.Types.BigInt,
    double: Schema.Types.Double,
    author: { type: Schema.Types.ObjectId, ref: 'Author' },
    chapters: [new Schema({ title: String, secret: String }, { _id: false })],
    labels: { type: Map, of: String },
    by: { type: Map, of: new Schema({ secret: String }) },
    at: Date,
    data: Schema.Types.Mixed,
    id16: Schema.Types.UUID,
    nothing: String,
  },
  {
    timestamps: true,
    virtuals: {
      loud: {
        get() {
          return String(this.title).toUpperCase();
        },
      },
    },
    toJSON: { virtuals: true },
  },
);
const Author = mongoose.model('Author', author);
const Book = mongoose.model('Book', book);
const Reader = mongoose.model('Reader', author.clone());
const ref = { type: Schema.Types.ObjectId, ref: 'Reader' };
const Loan = mongoose.model('Loan', new Schema({ reader: ref, others: [ref] }));
const Flat = mongoose.model(
  'Flat',
  new Schema(
    { secret: String, labels: { type: Map, of: String } },
    {
      toJSON: {
        flattenMaps: false,
        flattenObjectIds: true,
        transform: (_, plain) => ({ ...plain, transformed: true }),
      },
    },
  ),
);
const oid = '64b7f0c2a1b2c3d4e5f60718';
const bookOf = (more = {}) =>
  new Book({
    _id: oid,
    title: 'Walden',
    secret,
    tags: ['a', 'b'],
    price: '12.50',
    long: 9007199254740993n,
    double: 1.5,
    author: oid,
    chapters: [{ title: 'I', secret }],
    labels: { de: 'Wald', en: 'wood' },
    by: { first: { _id: oid, secret } },
    at: born,
    data: { deep: [1, { secret }] },
    id16: '0b7f0c2a-1b2c-4d4e-8f60-0718aabbccdd',
    createdAt: born,
    updatedAt: born,
    ...more,
  });

const { root } = protobuf.parse(
  'syntax = "proto3"; message Marked { string name = 1; string secret = 2; int64 count = 3; } message Item { string name = 1; string secret = 2; int64 count = 3; }' +
    'message Order { int64 id = 1; uint64 large = 2; string secret = 3; repeated Item items = 4; map<string, int64> totals = 5; State state = 6; oneof by { string mail = 7; int32 number = 8; } double rate = 9; bool paid = 10; }' +
    'enum State { NEW = 0; PAID = 1; }',
);
const Order = root.lookupType('Order');
const Marked = root.lookupType('Marked');
const orderFields = {
  id: Long.fromString('9007199254740993'),
  large: Long.MAX_UNSIGNED_VALUE,
  secret,
  items: [{ name: 'tea', secret, count: 3 }],
  totals: { a: Long.fromNumber(7) },
  state: 1,
  mail: 'm',
  rate: 1.5,
  paid: true,
};
const order = () => Order.decode(Order.encode(Order.fromObject(orderFields)).finish());

class Store {
  secret = secret;
  count = 1;
  list = [{ a: 1 }];
  byId = new Map([['a', { secret }]]);
  tags = new Set(['x']);
  constructor() {
    makeAutoObservable(this);
  }
  get double() {
    return this.count * 2;
  }
  add() {
    this.count++;
  }
}
class Point {
  x = 1;
  secret = secret;
  [immerable] = true;
  get y() {
    return this.x;
  }
}
const base = () => ({
  id: 1,
  secret,
  list: [{ n: 1 }],
  byKey: new Map([['k', { secret }]]),
  tags: new Set(['t']),
  at: new Date(born),
});
const unfinished = (of, recipe) => {
  const draft = createDraft(of);
  recipe(draft);
  return draft;
};

/** Of each: the value, and texts that must not be seen where all of it is marked. */
const values = {
  'decimal.js': [new Decimal('1234567.891'), ['1234567.891']],
  'decimal.js, exponent': [new Decimal('1e-700'), []],
  'decimal.js, NaN': [new Decimal(NaN), []],
  'decimal.js in a list': [[new Decimal('0.1').plus('0.2'), new Decimal('-0')], []],
  'luxon DateTime': [DateTime.fromISO(born, { zone: 'Europe/Berlin' }), ['1987-03-01', '541592430']],
  'luxon DateTime, invalid': [DateTime.invalid('no'), []],
  'luxon Duration': [Duration.fromObject({ days: 3, hours: 4 }), []],
  'luxon Interval': [Interval.after(DateTime.fromISO(born, { zone: 'utc' }), { days: 1 }), ['1987-03-01']],
  dayjs: [dayjs(born), ['1987-03-01', '541592430']],
  'dayjs utc': [dayjs.utc(born), ['1987-03-01', '541592430']],
  'dayjs, invalid': [dayjs('no'), []],
  'dayjs duration': [dayjs.duration({ days: 3, hours: 4 }), []],
  moment: [moment(born), ['1987-03-01', '541592430']],
  'moment utc': [moment.utc(born), ['1987-03-01', '541592430']],
  'moment with offset': [moment.parseZone('1987-03-01T12:20:30.456+02:00'), ['1987-03-01', '541592430']],
  'moment, invalid': [moment.invalid(), []],
  'moment duration': [moment.duration(3, 'days'), []],
  'mongoose ObjectId': [new Types.ObjectId(oid), [oid]],
  'mongoose Decimal128': [Types.Decimal128.fromString('12.50'), []],
  'mongoose document': [bookOf(), [secret]],
  'mongoose document, lean': [bookOf().toObject(), [secret]],
  'mongoose document, flattened ids': [new Flat({ _id: oid, secret, labels: { a: secret } }), []],
  'mongoose document, populated': [
    bookOf({ author: new Author({ _id: oid, name: 'Thoreau', secret }) }),
    [secret],
  ],
  'mongoose map': [bookOf().labels, ['Wald']],
  'mongoose list': [bookOf().tags, []],
  'mongoose list of documents': [bookOf().chapters, [secret]],
  'mongoose subdocument': [bookOf().chapters[0], [secret]],
  'mongoose documents in a list': [[bookOf(), bookOf()], [secret]],
  'bson Long': [mongoose.mongo.Long.fromString('9007199254740993'), []],
  'bson Int32 and Double': [[new mongoose.mongo.Int32(7), new mongoose.mongo.Double(1.5)], []],
  'bson Binary': [new mongoose.mongo.Binary(Buffer.from(secret)), []],
  'bson UUID': [new mongoose.mongo.UUID('0b7f0c2a-1b2c-4d4e-8f60-0718aabbccdd'), ['0b7f0c2a']],
  'bson Timestamp': [mongoose.mongo.Timestamp.fromBits(1, 2), []],
  'Prisma Decimal': [new PrismaDecimal('1234567.891'), ['1234567.891']],
  'Prisma null of JSON': [[JsonNull, DbNull], []],
  'Prisma row': [
    {
      id: 1,
      total: new PrismaDecimal('12.50'),
      at: new Date(born),
      secret,
      items: [{ price: new PrismaDecimal('1e21') }],
    },
    [secret],
  ],
  'class-transformer instance': [user(), [secret]],
  'class-transformer plain': [instanceToPlain(user()), [secret]],
  'class-transformer list': [plainToInstance(User, [{ secret, name: 'B' }]), [secret]],
  'immer, produced': [
    produce(base(), (draft) => {
      draft.list.push({ n: 2 });
      draft.more = { secret };
    }),
    [secret],
  ],
  'immer, unchanged': [produce(base(), () => {}), [secret]],
  'immer class': [
    produce(new Point(), (draft) => {
      draft.x = 2;
    }),
    [secret],
  ],
  'immer, finished draft': [
    (() => {
      const draft = unfinished(base(), (d) => {
        d.list[0].n = 9;
      });
      return finishDraft(draft);
    })(),
    [secret],
  ],
  'immer, open draft': [
    unfinished(base(), (d) => {
      d.list[0].n = 9;
      d.more = [d.list[0]];
    }),
    [secret],
  ],
  'immer, list': [
    produce([{ secret }], (d) => {
      d.push({ secret });
    }),
    [secret],
  ],
  'immer, Map': [
    produce(new Map([['a', { secret }]]), (d) => {
      d.set('b', { n: 1 });
    }),
    [secret],
  ],
  'immer, Set': [
    produce(new Set(['a']), (d) => {
      d.add('b');
    }),
    [],
  ],
  'immer, open draft of a Map': [
    unfinished(new Map([['a', { secret }]]), (d) => {
      d.set('b', { n: 1 });
    }),
    [secret],
  ],
  'mobx object': [
    observable({
      id: 1,
      secret,
      deep: { list: [1, { secret }] },
      get double() {
        return this.id * 2;
      },
    }),
    [secret],
  ],
  'mobx object without proxy': [observable({ id: 1, secret }, {}, { proxy: false }), [secret]],
  'mobx list': [observable([1, { secret }]), [secret]],
  'mobx list without proxy': [observable.array([1, { secret }], { proxy: false }), [secret]],
  'mobx map': [observable.map({ a: { secret } }), [secret]],
  'mobx set': [observable.set(['a', 'b']), []],
  'mobx box': [observable.box({ secret }), [secret]],
  'mobx class': [new Store(), [secret]],
  'mobx, made plain': [toJS(new Store().byId), [secret]],
  'protobuf message': [order(), [secret]],
  'protobuf object': [Order.toObject(order()), [secret]],
  'protobuf object, longs as text': [
    Order.toObject(order(), { longs: String, enums: String, defaults: true, oneofs: true }),
    [secret],
  ],
  'protobuf list': [order().items, [secret]],
  Long: [Long.fromString('9007199254740993'), []],
  'Long in a list': [[Long.ONE, Long.MAX_UNSIGNED_VALUE], []],
};

const hash = { type: 'CUSTOM', strategy: 'HASH' };
class MarkedPoint extends Point {}
class MarkedStore {
  secret = secret;
  count = 1;
  constructor() {
    makeAutoObservable(this);
  }
  get line() {
    return `x${this.count}`;
  }
}
class MarkedUser {}
Type(() => Date)(MarkedUser.prototype, 'born');
for (const type of [MarkedPoint, MarkedStore, MarkedUser, Reader, Marked.ctor])
  PiiField(hash)(type.prototype, 'secret');
/** Classes that mark their field `secret`. */
const marked = {
  'class-transformer instance': plainToInstance(MarkedUser, { id: 1, secret, born }),
  'immer class': produce(new MarkedPoint(), (draft) => {
    draft.x = 2;
  }),
  'mobx class': new MarkedStore(),
  'mongoose document': new Reader({ _id: oid, name: 'Thoreau', secret }),
  'mongoose document, populated': new Loan({
    _id: oid,
    reader: new Reader({ _id: oid, name: 'Thoreau', secret }),
  }),
  'mongoose documents, populated': new Loan({ _id: oid, others: [new Reader({ _id: oid, secret })] }),
  'protobuf message': Marked.create({ name: 'tea', secret, count: 3 }),
};

class Owner {
  constructor(held) {
    this.held = held;
  }
}
/** What an application may make of a value. */
class Composing extends Owner {
  toJSON() {
    const { held } = this;
    const texts = [() => String(held), () => JSON.stringify(held), () => held.valueOf(), () => held].map(
      (make) => {
        try {
          return make();
        } catch {
          return null;
        }
      },
    );
    return { texts };
  }
}
PiiField(hash)(Owner.prototype, 'held');

const key = ({ args: [key] }) => key;
const same = (_, value) => value;
const inObject = (_, value) => ({ value, list: [value] });
const pii = ['**.secret=CUSTOM:HASH'];
const plain = publishEvent({ eventType: 'PLAIN', key }, same);
const nested = publishEvent({ eventType: 'NESTED', key }, inObject);
const ruled = publishEvent({ eventType: 'RULED', key, pii }, (_, value) => ({ value, secret: value }));
const owned = publishEvent({ eventType: 'OWNED', key }, (_, value) => new Owner(value));
const composed = publishEvent({ eventType: 'COMPOSED', key }, (_, value) => new Composing(value));
const own = publishEvent({ eventType: 'OWN', key }, inObject);

/** What docs/api.md says of values that JSON has no form for, or loses. */
function documented(name, said) {
  const value = this[name];
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  const one = typeof value?.toJSON === 'function' ? said : value;
  if (typeof one === 'bigint') return String(one);
  if (one instanceof Map) return Object.fromEntries(one);
  return one instanceof Set ? [...one] : one;
}
const jsonOf = (value) => JSON.parse(JSON.stringify(value, documented));

const cases = [];
for (const [name, [value, secrets]] of Object.entries(values)) {
  const id = String(cases.length);
  for (const call of [plain, nested, ruled, owned, composed]) call(id, value);
  cases.push({ id, name, secrets, json: jsonOf(value) });
}
const owns = [];
for (const [name, value] of Object.entries(marked)) {
  const id = String(owns.length);
  own(id, value);
  owns.push({ id, name, json: jsonOf(value) });
}
writeFileSync('cases.json', JSON.stringify({ cases, owns }));
