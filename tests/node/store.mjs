// Reads and writes the store that Python and TypeScript share, with Node's own LanceDB, for the tests.
//
//   node store.mjs write   DIR rows.json    make the table if there is none, add the rows
//   node store.mjs upsert  DIR rows.json    the same, but a row replaces the one with its id
//   node store.mjs delete  DIR ID           delete every row with this id
//   node store.mjs read    DIR              every row, one JSON object a line
//   node store.mjs schema  DIR              every column: name, type, nullable, one a line
//   node store.mjs search  DIR query.json   nearest pattern rows, scored as the TypeScript program scores them
//   node store.mjs indices DIR              every index: name, type, columns, one a line
//
// DIR is the LanceDB folder (`.agenthood/memory`); `-` for a file is standard input. A row is {id, content, metadata,
// created_at?, vector?}, stored as given; a missing vector is stored as zeros. A query is {vector, limit?}.
// Arguments of the wrong shape end in exit code 2.

import { readFileSync } from "node:fs";
import * as lancedb from "@lancedb/lancedb";
import { Field, FixedSizeList, Float32, Schema, Utf8 } from "apache-arrow";

const TABLE = "vectors";
const DIMENSION = 1536;
const PATTERN_ROWS = `metadata LIKE '%"type":"learned\\_pattern"%'`;

const SCHEMA = new Schema([
  new Field("id", new Utf8(), false),
  new Field("vector", new FixedSizeList(DIMENSION, new Field("item", new Float32(), true)), true),
  new Field("content", new Utf8(), true),
  new Field("metadata", new Utf8(), true),
  new Field("created_at", new Utf8(), true),
]);

const readJson = (path) => JSON.parse(readFileSync(path === "-" ? 0 : path, "utf8"));
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

function completeRow(row) {
  return {
    id: row.id,
    vector: row.vector ?? new Array(DIMENSION).fill(0),
    content: row.content,
    metadata: row.metadata,
    created_at: row.created_at ?? new Date().toISOString(),
  };
}

async function openOrCreate(db) {
  const names = await db.tableNames();
  return names.includes(TABLE) ? db.openTable(TABLE) : db.createEmptyTable(TABLE, SCHEMA);
}

async function write(db, path) {
  const table = await openOrCreate(db);
  const rows = readJson(path).map(completeRow);
  // LanceDB refuses an empty list; without rows this only makes the table.
  if (rows.length > 0) await table.add(rows);
}

async function upsert(db, path) {
  const table = await openOrCreate(db);
  await table
    .mergeInsert("id")
    .whenMatchedUpdateAll()
    .whenNotMatchedInsertAll()
    .execute(readJson(path).map(completeRow));
}

async function remove(db, id) {
  const table = await db.openTable(TABLE);
  await table.delete(`id = ${quoted(id)}`);
}

function describeRow(row) {
  const vector = row.vector === null ? null : Array.from(row.vector);
  return {
    id: row.id,
    content: row.content,
    metadata: row.metadata,
    created_at: row.created_at,
    zero_vector: vector !== null && vector.every((value) => value === 0),
    norm: vector === null ? null : Math.hypot(...vector),
    // Printed so that the same doubles are read back: float32 values can be compared exactly.
    vector,
  };
}

async function read(db) {
  const table = await db.openTable(TABLE);
  for (const row of await table.query().toArray()) print(describeRow(row));
}

async function schema(db) {
  const table = await db.openTable(TABLE);
  for (const { name, type, nullable } of (await table.schema()).fields) print({ name, type: String(type), nullable });
}

async function search(db, path) {
  const { vector, limit = 10 } = readJson(path);
  const table = await db.openTable(TABLE);
  // No distance type and no refining: l2 by default, as the TypeScript program searches.
  const rows = await table.vectorSearch(vector).where(PATTERN_ROWS).limit(limit).toArray();
  for (const row of rows) print({ id: row.id, content: row.content, score: 1 - row._distance });
}

async function indices(db) {
  const table = await db.openTable(TABLE);
  for (const { name, indexType, columns } of await table.listIndices()) print({ name, type: indexType, columns });
}

// Each command with whether it takes an argument after DIR.
const COMMANDS = {
  write: [write, true],
  upsert: [upsert, true],
  delete: [remove, true],
  read: [read, false],
  schema: [schema, false],
  search: [search, true],
  indices: [indices, false],
};

async function main([command, dir, ...rest]) {
  const [run, takesArgument] = COMMANDS[command] ?? [];
  if (run === undefined || dir === undefined || rest.length !== Number(takesArgument)) {
    process.stderr.write(`usage: store.mjs ${Object.keys(COMMANDS).join("|")} DIR [rows.json|query.json|ID]\n`);
    return 2;
  }
  const db = await lancedb.connect(dir, { readConsistencyInterval: 0 });
  await run(db, ...rest);
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
