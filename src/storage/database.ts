import type { Kysely, Transaction } from 'kysely';
import type { Tables } from './tables.ts';

export type Db = Kysely<Tables>;
/** A transaction on the writing connection; store functions that write take it as their `db`. */
export type Tx = Transaction<Tables>;
