import { Client } from 'pg';

/** Something that happened to a run of a workflow or source under flow control, in the order in which the store decided. */
export interface FlowStep {
  what: 'arrived' | 'begun' | 'ended';
  /** The transaction that did it. */
  tx: string;
  runId: string;
  subjectId: string;
  groupKey: string;
  concurrencyKey: string;
  throttleKey: string;
  singletonKey: string | null;
  coalesceKey: string | null;
  rateKey: string | null;
  placeMs: number;
  /** When it arrived, was let begin, or ended. */
  atMs: number;
}

/**
 * Triggers on the tables of the queue and of the runs write down each step of each run, and what sources emit. A run begins in a
 * transaction that sees the ends before it, so the order of the numbers is one in which no limit may ever be exceeded. The run of a
 * source ends with its job.
 */
const recorder = `
  create table if not exists flow_history (
    number bigserial primary key, what text not null, tx text not null, run_id text not null, subject_id text,
    group_key text, concurrency_key text, throttle_key text, singleton_key text, coalesce_key text, rate_key text,
    place_ms bigint, at_ms bigint not null);
  create or replace function record_flow_step() returns trigger language plpgsql as $$
    begin
      insert into flow_history
        (what, tx, run_id, subject_id, group_key, concurrency_key, throttle_key, singleton_key, coalesce_key,
         rate_key, place_ms, at_ms)
      values
        (case when new.state = 'started' then 'begun' else 'arrived' end, txid_current()::text, new.run_id,
         new.subject_id, new.group_key, new.concurrency_key, new.throttle_key, new.singleton_key, new.coalesce_key,
         new.rate_key, new.place_ms, case when new.state = 'started' then new.started_ms else new.arrived_ms end);
      return null;
    end $$;
  create or replace function record_run_end() returns trigger language plpgsql as $$
    begin
      insert into flow_history (what, tx, run_id, at_ms)
        values ('ended', txid_current()::text, new.id, new.ended_at_ms);
      return null;
    end $$;
  create or replace function record_job_end() returns trigger language plpgsql as $$
    begin
      insert into flow_history (what, tx, run_id, at_ms)
        values ('ended', txid_current()::text, old.id, extract(epoch from clock_timestamp()) * 1000);
      return null;
    end $$;
  create table if not exists flow_emitted (number bigserial primary key, emitter_id text not null, event text not null);
  create or replace function record_emitted() returns trigger language plpgsql as $$
    begin
      insert into flow_emitted (emitter_id, event) values (new.emitter_id, new.event);
      return null;
    end $$;
  create or replace trigger record_job_end after delete on jobs
    for each row when (old.kind = 'run_source')
    execute function record_job_end();
  create or replace trigger record_emitted after insert on events
    for each row when (new.channel = '' and new.emitter_id like 'dc_%')
    execute function record_emitted();
  create or replace trigger record_flow_arrival after insert on flow_runs
    for each row execute function record_flow_step();
  create or replace trigger record_flow_start after update of state on flow_runs
    for each row when (new.state in ('started', 'waiting') and new.state <> old.state)
    execute function record_flow_step();
  create or replace trigger record_run_end after update of ended_at_ms on runs
    for each row when (old.ended_at_ms is null and new.ended_at_ms is not null)
    execute function record_run_end();`;

/** What PostgreSQL wrote down of the runs of a burst. */
export class FlowHistory {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async record(url: string): Promise<FlowHistory> {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(recorder);
    return new FlowHistory(client);
  }

  /** Everything since the last call. */
  async take(): Promise<FlowStep[]> {
    const { rows } = await this.#client.query('select * from flow_history order by number');
    await this.#client.query('truncate flow_history');
    return rows.map((row) => ({
      what: row.what,
      tx: row.tx,
      runId: row.run_id,
      subjectId: row.subject_id ?? '',
      groupKey: row.group_key ?? '',
      concurrencyKey: row.concurrency_key ?? '',
      throttleKey: row.throttle_key ?? '',
      singletonKey: row.singleton_key,
      coalesceKey: row.coalesce_key,
      rateKey: row.rate_key,
      placeMs: Number(row.place_ms ?? 0),
      atMs: Number(row.at_ms),
    }));
  }

  /** The runs of workflows with their events, and what runs of sources emitted. */
  async runs(subjectIds: readonly string[]): Promise<{ id: string; state: string; event: string }[]> {
    const { rows } = await this.#client.query(
      `select id, state, event from runs where workflow_id = any($1)
        union all select number::text, 'succeeded', event from flow_emitted where emitter_id = any($1)`,
      [subjectIds],
    );
    return rows;
  }

  async unfinished(subjectIds: readonly string[]): Promise<number> {
    const { rows } = await this.#client.query(
      `select (select count(*) from runs where workflow_id = any($1) and ended_at_ms is null)
        + (select count(*) from jobs join unnest($1::text[]) as wanted(subject) on starts_with(lane, subject)
          where kind = 'run_source') as count`,
      [subjectIds],
    );
    return Number(rows[0]?.count);
  }

  /** Events of sources that are kept with the reason for which they did not run. */
  async unbegun(subjectIds: readonly string[]): Promise<number> {
    const { rows } = await this.#client.query(
      'select count(*) as count from flow_unbegun where subject_id = any($1)',
      [subjectIds],
    );
    return Number(rows[0]?.count);
  }

  async totals(subjectIds: readonly string[]): Promise<Record<string, number>> {
    const names = ['started', 'skipped', 'replaced', 'debounced', 'batched'];
    const { rows } = await this.#client.query(
      `select ${names.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join()} from flow_queues
        where subject_id = any($1)`,
      [subjectIds],
    );
    return Object.fromEntries(names.map((name) => [name, Number(rows[0]?.[name])]));
  }

  end(): Promise<void> {
    return this.#client.end();
  }
}
