import express, { type ErrorRequestHandler } from 'express';
import { inTransaction, openDatabase } from './database.ts';
import { deliver, post } from './parcels.ts';
import { authenticated } from './users.ts';

const database = openDatabase(process.env.PARCELS_DB ?? 'parcels.db');
const app = express();
app.use(express.json());

app.post('/parcels', authenticated, (request, response) => {
  const { recipient, grams } = request.body;
  response.status(201).json(inTransaction(database, () => post(database, recipient, grams)));
});

app.post('/parcels/:id/delivery', authenticated, (request, response) => {
  response.json(inTransaction(database, () => deliver(database, Number(request.params.id))));
});

const onError: ErrorRequestHandler = (error, _request, response, _next) => {
  response.status(400).json({ error: error.message });
};
app.use(onError);

const server = app.listen(Number(process.env.PORT ?? 3000), () => {
  console.log(`parcels: listening on port ${(server.address() as { port: number }).port}`);
});
process.once('SIGTERM', () => {
  server.close(() => database.close());
});
