import {
  type KyselyPlugin,
  type PluginTransformQueryArgs,
  type PluginTransformResultArgs,
  type QueryResult,
  RawNode,
  type RootOperationNode,
  SelectQueryNode,
  type UnknownRow,
} from 'kysely';

/** Tells whether statements of a transaction changed rows: one that only looked, and then refused, is no change. */
export class ChangeWatch implements KyselyPlugin {
  hasChanged = false;
  /** Statements that only read: SQLite counts their rows as it counts changed ones. */
  readonly #reading = new WeakSet<object>();

  transformQuery({ node, queryId }: PluginTransformQueryArgs): RootOperationNode {
    if (isReading(node)) this.#reading.add(queryId);
    return node;
  }

  async transformResult({ result, queryId }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    if (!this.#reading.has(queryId) && (result.numAffectedRows ?? 0n) > 0n) this.hasChanged = true;
    return result;
  }
}

function isReading(node: RootOperationNode): boolean {
  if (SelectQueryNode.is(node)) return true;
  return RawNode.is(node) && /^\s*select\b/i.test(node.sqlFragments[0] ?? '');
}
