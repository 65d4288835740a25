import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makeSql, sqlValue } from './sql-prop.ts';

const hostile = "x'; DROP TABLE users; --";
const values: Record<string, unknown> = {
  id: 7,
  name: hostile,
  none: undefined,
  list: [1, 2],
  object: { a: 1 },
  sql: 'SELECT 1',
};
const evaluate = (expression: string): unknown => {
  if (expression in values) return values[expression];
  return new Function(`return (${expression})`)();
};
const postgres = { app: 'postgresql' };
const mysql = { app: 'mysql' };

function evaluated(query: unknown, auth: object, params?: unknown): [unknown, unknown] {
  const result = sqlValue({ app: 'x', query, params }, auth, evaluate);
  return [result.query, result.params];
}

describe('an expression in a query', () => {
  test('becomes a placeholder, in the form of the database, and a param', () => {
    const query = 'SELECT * FROM t WHERE id = {{id}} AND name = {{ name }}';
    assert.deepEqual(evaluated(query, postgres), [
      'SELECT * FROM t WHERE id = $1 AND name = $2',
      [7, hostile],
    ]);
    assert.deepEqual(evaluated(query, mysql), ['SELECT * FROM t WHERE id = ? AND name = ?', [7, hostile]]);
    assert.deepEqual(evaluated(query, { app: 'snowflake' })[0], 'SELECT * FROM t WHERE id = ? AND name = ?');
    assert.deepEqual(sqlValue({ app: 'mysql', query }, undefined, evaluate).params, [7, hostile]);
  });

  test('can be used with given params: numbered ones stay, others keep their order', () => {
    assert.deepEqual(evaluated('a = $1 AND b = {{id}} AND c = $2', postgres, ['p', 'q']), [
      'a = $1 AND b = $3 AND c = $2',
      ['p', 'q', 7],
    ]);
    assert.deepEqual(evaluated('a = ? AND b = {{id}} AND c = ?', mysql, ['p', 'q']), [
      'a = ? AND b = ? AND c = ?',
      ['p', 7, 'q'],
    ]);
    assert.throws(
      () => evaluated('a = ? AND b = {{id}} AND c = ?', mysql, ['p']),
      /more \? than there are params/,
    );
  });

  test('becomes one value with the quotes and the text around it', () => {
    assert.deepEqual(evaluated("name = '{{name}}'", postgres), ['name = $1', [hostile]]);
    assert.deepEqual(evaluated("a LIKE '%{{name}}''s%' AND b = '?'", mysql), [
      "a LIKE ? AND b = '?'",
      [`%${hostile}'s%`],
    ]);
    assert.deepEqual(evaluated('name = "{{name}}"', mysql), ['name = ?', [hostile]]);
    assert.deepEqual(evaluated("a = 'it\\'s {{id}}' AND b = {{id}}", mysql), [
      'a = ? AND b = ?',
      ["it's 7", 7],
    ]);
    assert.deepEqual(evaluated("a = '{{object}}'", postgres), ['a = $1', ['{"a":1}']]);
  });

  test('is refused where no value is allowed', () => {
    for (const [query, auth] of [
      ['SELECT * FROM "{{name}}"', postgres],
      ['SELECT * FROM `{{name}}`', mysql],
      ["SELECT E'{{name}}'", postgres],
      ['SELECT $$ {{name}} $$', postgres],
      ['DO $tag$ {{name}} $tag$', postgres],
    ] as const)
      assert.throws(() => evaluated(query, auth), /an expression cannot stand in/, query);
    assert.deepEqual(evaluated('SELECT {{id', postgres), ['SELECT {{id', []]);
  });

  test('has no meaning in a comment', () => {
    const query = "SELECT 1 -- {{nowhere.to}} ?'\n, /* {{nowhere.to}} ' */ {{id}}";
    assert.deepEqual(evaluated(query, postgres), [query.replace('{{id}}', '$1'), [7]]);
    assert.deepEqual(evaluated("SELECT 1 # it's {{nowhere.to}}\n, {{id}}", mysql)[1], [7]);
  });

  test('may hold objects, texts and braces of its own', () => {
    assert.deepEqual(evaluated('SELECT {{ {a: {b: "}}"}}.a.b }}, {{`}}`}}', postgres), [
      'SELECT $1, $2',
      ['}}', '}}'],
    ]);
    assert.deepEqual(evaluated(`SELECT {{ "a'b".replace(/'/g, "") }}`, postgres), ['SELECT $1', ['ab']]);
    assert.deepEqual(evaluated("SELECT '{{ 'x' + 'y' }}'", postgres), ['SELECT $1', ['xy']]);
  });

  test('becomes null when it is undefined; lists and objects stay unchanged', () => {
    assert.deepEqual(evaluated('SELECT {{none}}, {{list}}, {{object}}', postgres)[1], [
      null,
      [1, 2],
      { a: 1 },
    ]);
  });

  test('that is the whole query returns the query', () => {
    assert.deepEqual(evaluated(' {{sql}} ', postgres, ['{{id}}']), ['SELECT 1', [7]]);
  });
});

test('is also evaluated in the params of a query, one by one or as a whole', () => {
  const query = 'SELECT $1, $2, $3';
  assert.deepEqual(evaluated(query, postgres, ['{{id}}', 'n {{id}}', true]), [query, [7, 'n 7', true]]);
  assert.deepEqual(evaluated(query, postgres, '{{list}}'), [query, [1, 2]]);
  assert.deepEqual(evaluated(query, postgres, ['{{none}}']), [query, [null]]);
  assert.throws(() => evaluated(query, postgres, 'text'), /params of a query are a list, found string/);
});

test('this.<prop> of type sql has the query and its params, in whichever form it was configured', () => {
  const sql = { app: 'mysql', query: 'SELECT ?', params: [1], values: [1] };
  assert.deepEqual(makeSql({ app: 'mysql', query: 'SELECT ?', params: [1] }), sql);
  assert.deepEqual(makeSql({ value: { app: 'mysql', query: 'SELECT ?', params: [1] } }), sql);
  assert.deepEqual(makeSql('SELECT 1'), { query: 'SELECT 1', params: [], values: [] });
  assert.deepEqual(makeSql(undefined), { query: '', params: [], values: [] });
});
