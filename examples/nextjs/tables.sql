CREATE TABLE orders (
  id serial PRIMARY KEY,
  product text NOT NULL,
  quantity integer NOT NULL
);
