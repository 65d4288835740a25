/** A saved component (sc_…): source text, the result of its evaluation, and the bundle that runs. Rows never change. */
export interface ComponentTable {
  id: string;
  owner_id: string;
  user_id: string;
  /** The `key` property of the component, when it has one. */
  component_key: string | null;
  code: string;
  /** Hex SHA-256 of `code`. */
  code_hash: string;
  /** Hash over all files, the lock and the builder: equal means equal bundle. */
  tree_hash: string;
  url: string | null;
  name: string;
  version: string;
  /** JSON of `ComponentShape`. */
  shape: string;
  bundle_hash: string;
  /** JSON: exact versions and integrity of every npm package in the bundle. */
  lock: string;
  created_at_ms: number;
  updated_at_ms: number;
}

export const bundleFormats = ['cjs', 'esm'] as const;
export type BundleFormat = (typeof bundleFormats)[number];

/** Bundles by content. The owner is part of the key: one tenant never runs bytes another tenant's build produced. */
export interface BundleTable {
  owner_id: string;
  hash: string;
  format: BundleFormat;
  code: string;
  /** Text of the lockfile of packages that `code` imports from files; null: they are a part of it. */
  packages: string | null;
  /** When a component with it was last stored. */
  created_at_ms: number;
}

/** When a component was last used, apart from its row, which has its code. Written at most every half hour. */
export interface ComponentUseTable {
  component_id: string;
  owner_id: string;
  /** 1: a user saved it; it is kept for good. */
  saved: number;
  used_at_ms: number;
}
