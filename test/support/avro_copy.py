"""Reads lines of `schema body`, both in Base64; answers with the record as JSON and the body as this library writes it."""
import base64
import io
import json
import sys

import fastavro

for line in sys.stdin:
    schema_text, body = (base64.b64decode(part) for part in line.split())
    schema = fastavro.parse_schema(json.loads(schema_text))
    record = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    text = json.dumps(record, default=str).encode()
    print(base64.b64encode(text).decode(), base64.b64encode(out.getvalue()).decode(), flush=True)
