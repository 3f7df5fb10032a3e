import { DatabaseSync } from 'node:sqlite';

export interface Invoice {
  id: number;
  customer: string;
  iban: string;
  cents: number;
  paid: 0 | 1;
}

/** One object with methods, which no class and no export names: `createInvoices().issue`. */
export function createInvoices(file: string) {
  const database = new DatabaseSync(file);
  database.exec(`
    CREATE TABLE IF NOT EXISTS invoices (
      id INTEGER PRIMARY KEY,
      customer TEXT NOT NULL,
      iban TEXT NOT NULL,
      cents INTEGER NOT NULL CHECK (cents > 0),
      paid INTEGER NOT NULL DEFAULT 0
    )`);
  const insert = database.prepare(
    'INSERT INTO invoices (customer, iban, cents) VALUES (?, ?, ?) RETURNING *',
  );
  const update = database.prepare('UPDATE invoices SET paid = 1 WHERE id = ? AND paid = 0 RETURNING *');

  return {
    async issue({ customer, iban, cents }: Omit<Invoice, 'id' | 'paid'>): Promise<Invoice> {
      return insert.get(customer, iban, cents) as unknown as Invoice;
    },
    async pay(id: number): Promise<Invoice> {
      const paid = update.get(id) as unknown as Invoice | undefined;
      if (paid === undefined) throw new Error('no invoice is open with this id');
      return paid;
    },
    close: () => database.close(),
  };
}
