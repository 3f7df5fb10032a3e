import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { Worker } from 'node:worker_threads';
import { openReadings, record } from './readings.ts';

const readings = openReadings();
const adder = new Worker(new URL('./adder.ts', import.meta.url));

const server = createServer(async (request, response) => {
  const answer = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  try {
    const { meter, kwh } = (await json(request)) as { meter: string; kwh: number };
    const reading = record(readings, meter, kwh);
    adder.postMessage(reading);
    answer(201, reading);
  } catch (error) {
    answer(400, { error: (error as Error).message });
  }
});
server.listen(Number(process.env.PORT ?? 3000), () => console.log(`meters: ${process.pid} is listening`));

process.once('SIGTERM', () => {
  server.close();
  adder.postMessage(null);
  adder.once('exit', () => {
    readings.close();
    process.disconnect();
  });
});
