import type { Command } from 'commander';
import type {
  CreateWebhookAnswer,
  Delivery,
  RedeliverToWebhookAnswer,
  RotateWebhookSecretAnswer,
  Subscription,
  Webhook,
} from '#sdk';
import { durationText } from './amounts.ts';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { healthList } from './list-command.ts';
import { ownedPath } from './owned-path.ts';
import { withOwnerNames } from './owner-names.ts';
import type { Session } from './session.ts';
import {
  column,
  healthColumn,
  idColumn,
  millisText,
  showDone,
  showList,
  showOne,
  timeColumn,
} from './show.ts';

export function webhookCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const webhooks = group(program, 'webhooks', 'addresses that events are sent to');
  healthList<Webhook>(webhooks, 'your webhooks, or those of a workspace, newest first', sessionOptions, {
    path: (session) => ownedPath(session, 'webhooks'),
    columns: [
      idColumn(),
      column('NAME', 'name'),
      healthColumn(),
      column('URL', 'url'),
      column('WHY', ({ health }) => health.reason),
      timeColumn('CREATED (UTC)', 'created_at'),
    ],
    empty: 'No webhooks yet. `millrace webhooks create URL` makes one.',
  });
  leaf(
    webhooks,
    'describe <webhook>',
    'one webhook',
    sessionOptions,
    async (session, _options, id = '') =>
      await showOne(session, await (await session.api()).data('GET', pathOf`/v1/webhooks/${id}`)),
  );
  leaf(webhooks, 'create <url>', 'make a webhook; its signing secret is shown once', sessionOptions, create)
    .option('--name <name>', 'name of the webhook')
    .option('--description <text>', 'what it is for');
  leaf(webhooks, 'update <webhook>', 'change address, name or description', sessionOptions, update)
    .option('--url <url>', 'another address')
    .option('--name <name>', 'another name')
    .option('--description <text>', 'another description');
  leaf(
    webhooks,
    'delete <webhook>',
    'remove a webhook and its subscriptions',
    sessionOptions,
    async (session, _options, id = '') => {
      await (await session.api()).call('DELETE', pathOf`/v1/webhooks/${id}`);
      showDone(session, `Removed ${id}.`);
    },
  );
  leaf(
    webhooks,
    'pause <webhook>',
    'send nothing more; events are held',
    sessionOptions,
    act('pause', 'Paused'),
  );
  leaf(
    webhooks,
    'resume <webhook>',
    'make it active again, and send what was held',
    sessionOptions,
    act('resume', 'Resumed'),
  );
  leaf(
    webhooks,
    'rotate-secret <webhook>',
    'another signing secret; the old one signs too for 24 hours',
    sessionOptions,
    async (session, _options, id = '') =>
      showSecret(
        session,
        await (await session.api()).data<RotateWebhookSecretAnswer>(
          'POST',
          pathOf`/v1/webhooks/${id}/rotate_secret`,
          { body: {} },
        ),
      ),
  );
  leaf(webhooks, 'redeliver <webhook>', 'redeliver all dead letters', sessionOptions, redeliverAll).option(
    '--since <time>',
    'only what was emitted since then: ISO 8601 or epoch seconds',
  );
}

async function create(session: Session, options: CommandOptions, url = ''): Promise<void> {
  const body = {
    ...session.owner,
    url,
    name: textOption(options, 'name'),
    description: textOption(options, 'description'),
  };
  const webhook = await (await session.api()).data<CreateWebhookAnswer>('POST', '/v1/webhooks', { body });
  showSecret(session, webhook);
  if (!session.isJson)
    session.terminal.note(`Send events there: millrace subscriptions create EMITTER ${webhook.id}`);
}

function showSecret(session: Session, webhook: CreateWebhookAnswer | RotateWebhookSecretAnswer): void {
  if (session.isJson) {
    session.terminal.printJson(webhook);
    return;
  }
  session.terminal.print(`${webhook.id}  ${webhook.signing_secret}`);
  session.terminal.note('That is the signing secret. It is not shown again.');
}

async function update(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const body = {
    url: textOption(options, 'url'),
    name: textOption(options, 'name'),
    description: textOption(options, 'description'),
  };
  if (Object.values(body).every((value) => value === undefined))
    throw usageError('nothing to change', 'Give --url, --name or --description.');
  showDone(
    session,
    `Changed ${id}.`,
    await (await session.api()).data('PUT', pathOf`/v1/webhooks/${id}`, { body }),
  );
}

function act(operation: 'pause' | 'resume', done: string) {
  return async (session: Session, _options: CommandOptions, id = ''): Promise<void> => {
    const webhook = await (await session.api()).data('POST', pathOf`/v1/webhooks/${id}/${operation}`, {
      body: {},
    });
    showDone(session, `${done} ${id}.`, webhook);
  };
}

async function redeliverAll(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const since = textOption(options, 'since');
  const answer = await (await session.api()).data<RedeliverToWebhookAnswer>(
    'POST',
    pathOf`/v1/webhooks/${id}/redeliver`,
    {
      body: { since: since !== undefined && /^\d+$/.test(since) ? Number(since) : since },
    },
  );
  showDone(session, `${answer.queued} deliveries will be sent again.`, answer);
}

export function subscriptionCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const subscriptions = group(program, 'subscriptions', 'which events go where');
  leaf(
    subscriptions,
    'list',
    'your subscriptions, or those of a workspace',
    sessionOptions,
    async (session) => {
      const api = await session.api();
      const items = await api.whole<Subscription>(ownedPath(session, 'subscriptions'));
      showList<Subscription>(
        session,
        session.isJson ? items : await withOwnerNames(session, items),
        [
          idColumn(),
          column('EMITTER', 'emitter_id', { isWhole: true }),
          column('LISTENER', 'listener_id', { isWhole: true }),
          column('CHANNEL', 'event_name'),
          timeColumn('CREATED (UTC)', 'created_at'),
        ],
        'No subscriptions yet. `millrace subscriptions create EMITTER LISTENER` makes one.',
      );
    },
  );
  leaf(
    subscriptions,
    'describe <subscription>',
    'one subscription',
    sessionOptions,
    async (session, _options, id = '') =>
      showOne(session, await (await session.api()).data('GET', pathOf`/v1/subscriptions/${id}`)),
  );
  leaf(
    subscriptions,
    'create <emitter> <listener>',
    'send events of a source or workflow to a webhook, workflow or source',
    sessionOptions,
    subscribe,
  )
    .option('--event-name <name>', 'a channel: its name, $errors or $logs')
    .option('--from-event <id>', 'also what was emitted from this event on');
  leaf(
    subscriptions,
    'delete <subscription>',
    'end a subscription',
    sessionOptions,
    async (session, _options, id = '') => {
      await (await session.api()).call('DELETE', pathOf`/v1/subscriptions/${id}`);
      showDone(session, `Removed ${id}.`);
    },
  );
}

async function subscribe(
  session: Session,
  options: CommandOptions,
  emitter = '',
  listener = '',
): Promise<void> {
  const subscription = await (await session.api()).data<Subscription>('POST', '/v1/subscriptions', {
    body: {
      ...session.owner,
      emitter_id: emitter,
      listener_id: listener,
      event_name: textOption(options, 'eventName'),
      from_event_id: textOption(options, 'fromEvent'),
    },
  });
  if (session.isJson) return session.terminal.printJson(subscription);
  session.terminal.print(subscription.id);
}

export function deliveryCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const deliveries = group(program, 'deliveries', 'deliveries of events to listeners, and their outcomes');
  const ids =
    'of a webhook, a listening source or a subscription, newest first; without one, all dead letters';
  addLimit(leaf(deliveries, 'list [listener]', ids, sessionOptions, listDeliveries), 20).option(
    '--state <state>',
    'only in this state',
  );
  leaf(deliveries, 'describe <delivery>', 'one delivery with its attempts', sessionOptions, describeDelivery);
  leaf(
    deliveries,
    'redeliver <delivery>',
    'send it once more, with the same id',
    sessionOptions,
    async (session, _options, id = '') => {
      const delivery = await (await session.api()).data('POST', pathOf`/v1/deliveries/${id}/redeliver`, {
        body: {},
      });
      showDone(session, `${id} will be sent again.`, delivery);
    },
  );
}

async function listDeliveries(session: Session, options: CommandOptions, listener = ''): Promise<void> {
  const items = await (await session.api()).list<Delivery>(
    deliveriesPath(session, listener),
    limitOf(options),
    {
      state: textOption(options, 'state'),
    },
  );
  showList<Delivery>(
    session,
    items,
    [
      idColumn(),
      column('STATE', 'state'),
      column('REASON', 'reason'),
      column('EVENT', 'event_id', { isWhole: true }),
      column('EMITTER', 'emitter_id', { isWhole: true }),
      column('LISTENER', 'listener_id', { isWhole: true }),
      column('TRIES', 'attempt_count'),
      column('STATUS', 'status'),
    ],
    listener === '' ? 'No dead letters.' : 'No deliveries yet.',
  );
}

function deliveriesPath(session: Session, listener: string): string {
  if (listener.startsWith('wh_')) return pathOf`/v1/webhooks/${listener}/deliveries`;
  if (listener.startsWith('dc_')) return pathOf`/v1/sources/${listener}/deliveries`;
  if (listener.startsWith('sub_')) return pathOf`/v1/subscriptions/${listener}/deliveries`;
  if (listener !== '')
    throw usageError(`${listener} is no webhook (wh_…), source (dc_…) or subscription (sub_…)`);
  return ownedPath(session, 'dead_letters');
}

async function describeDelivery(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  const delivery = await (await session.api()).data<Delivery>('GET', pathOf`/v1/deliveries/${id}`);
  if (session.isJson) return session.terminal.printJson(delivery);
  const { attempts, ...fields } = delivery;
  await showOne(session, fields);
  session.terminal.print('');
  showList(
    session,
    attempts,
    [
      column('AT (UTC)', ({ at_ms }) => millisText(at_ms), { isWhole: true }),
      column('TOOK', ({ latency_ms: ms }) => durationText(ms)),
      column('STATUS', 'status'),
      column('ERROR', 'error'),
      column('RESPONSE', 'response'),
    ],
    'Not tried yet.',
  );
}
