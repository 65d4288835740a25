/** A request to the HTTP trigger of a workflow, and what the code of the workflow answers; worked out by hand from that code. */
export interface RecordedRequest {
  workflow: string;
  /** GET without a body, else POST with JSON. `path`: with query. */
  request: { path?: string; headers?: Record<string, string>; body?: unknown };
  /** A pattern for a text that has the time in it. Headers that are not named may be anything. */
  response: { status: number; headers?: Record<string, string>; body: unknown };
  /** Exports of steps of the run: those that are named. */
  exports?: Record<string, Record<string, unknown>>;
  /** What it has sent when the run has ended. Headers that are not named may be anything; undefined: not sent. */
  sent?: { method: string; url: string; headers: Record<string, string | RegExp | undefined>; body: string };
}

/** What the hosted service answers when no step has. */
const noResponse = { status: 400, body: 'No $.respond called in workflow' };

/** In the order in which they were sent: some workflows count. */
export const recordedRequests: readonly RecordedRequest[] = [
  {
    workflow: 'Quote',
    request: { body: { quantity: 3, extra: 'soil' } },
    response: {
      status: 200,
      headers: { 'x-plant': 'fern' },
      // 3 × 12.5, a pot for 6, soil for 3, a card for 2.25.
      body: { total: 48.75, extras: ['pot', 'soil', 'card'], discount: 'none', currency: 'EUR' },
    },
    exports: { price: { $summary: '3 of fern', plant: 'fern' } },
  },
  {
    workflow: 'greet_customer',
    request: { body: { name: '<b>Ada</b>', words: ['wet', 'moss', 'grows'], points: 4 } },
    response: {
      status: 201,
      headers: { 'x-greeting': 'Ada' },
      body: { loud: 'WET MOSS GROWS', longWords: 3, sentence: 'Dear Ada, you have 8 points' },
    },
  },
  {
    workflow: 'Doorbell',
    request: {},
    response: { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: /Success/ },
  },
  {
    workflow: 'large_orders',
    request: { body: { id: 'o-1', amount: 120 } },
    response: { status: 202, body: { accepted: true, number: 77 } },
    exports: { register: { $return_value: { accepted: true, number: 77 } } },
    sent: {
      method: 'POST',
      url: '/orders',
      headers: {
        authorization: 'Bearer large-orders-bearer-in-clear',
        'content-type': 'application/json',
      },
      body: '{\n  "id": "o-1",\n  "amount": 120\n}',
    },
  },
  {
    workflow: 'large_orders',
    request: { body: { id: 'o-2', amount: 1000 } },
    response: { status: 409, body: { accepted: false, number: 77 } },
  },
  {
    workflow: 'large_orders',
    request: { body: { id: 'o-3', amount: 99.5 } },
    response: noResponse,
    exports: { only_large: { $return_value: 'Too small' }, register: {}, respond: {} },
  },
  {
    workflow: 'Closed days',
    request: { body: { closed: null, guest: false } },
    response: { status: 200, headers: { 'content-type': 'text/plain' }, body: 'open' },
  },
  {
    workflow: 'Closed days',
    request: { body: {} },
    response: { status: 200, body: 'open' },
  },
  {
    workflow: 'Closed days',
    request: { body: { closed: 'Monday', guest: false } },
    response: noResponse,
    exports: { endForGuests: {}, open: {} },
  },
  {
    workflow: 'Closed days',
    request: { body: { closed: null, guest: true } },
    response: noResponse,
    exports: { open: {} },
  },
  {
    workflow: 'Visitor counter',
    request: { body: { name: 'Ada' } },
    response: { status: 200, body: { isKnown: false, count: 1, names: ['Ada'] } },
  },
  {
    workflow: 'Visitor counter',
    request: { body: { name: 'Ada' } },
    response: { status: 200, body: { isKnown: true, count: 2, names: ['Ada'] } },
  },
  {
    workflow: 'Visitor counter',
    request: { body: { name: 'Bo' } },
    response: { status: 200, body: { isKnown: false, count: 1, names: ['Ada', 'Bo'] } },
  },
  {
    // It reads the data store of the counter, too.
    workflow: 'Guest book',
    request: { body: { name: 'Ada' } },
    response: { status: 200, body: { new: true, visits: 2, last: 'Ada' } },
    exports: {
      seen: { $return_value: { existingKeyFound: false, newKeyCreated: true, value: { name: 'Ada' } } },
    },
  },
  {
    workflow: 'Guest book',
    request: { body: { name: 'ADA' } },
    response: { status: 200, body: { new: false, visits: 0, last: 'ADA' } },
  },
  {
    workflow: 'Stock lookup',
    request: { path: '?plant=fern' },
    response: { status: 200, headers: { 'x-upstream': '200' }, body: '4 left' },
    sent: {
      method: 'GET',
      url: '/stock/fern?shop=7',
      headers: {
        authorization: `Basic ${btoa('nursery:stock-password-in-clear')}`,
        accept: 'application/json',
        'x-debug': undefined,
      },
      body: '',
    },
  },
  {
    workflow: 'Push note',
    request: { headers: { 'x-sender': 'till' }, body: { title: ' Frost ', urgent: true } },
    response: { status: 200, body: { note: 'n-1' } },
    sent: {
      method: 'POST',
      url: '/notes?access_token=note-query-in-clear&list=7&urgent=true',
      headers: {
        'x-api-key': 'note-header-in-clear',
        'x-source': 'till',
        'content-type': /^application\/x-www-form-urlencoded(?:;|$)/,
      },
      body: 'title=Frost',
    },
  },
  {
    workflow: 'Label printer',
    request: { path: '?plant=fern' },
    response: { status: 200, headers: { 'content-type': 'text/plain' }, body: 'N° BOSTON FERN......' },
  },
  {
    workflow: 'Label printer',
    request: { path: '?plant=moss&copies=2' },
    response: { status: 200, body: 'N° CUSHION MOSS.....\nN° CUSHION MOSS.....' },
  },
  {
    workflow: 'Label printer',
    request: { path: '?plant=rose' },
    response: { status: 404, body: 'no such plant' },
  },
  {
    workflow: 'Old reply',
    request: { body: { name: 'Ada' } },
    response: { status: 201, headers: { 'x-old': 'yes' }, body: { hello: 'Ada', same: true } },
    exports: { reply: { caller: 'Ada', $return_value: 3 } },
  },
  {
    workflow: 'Older body',
    request: { body: { number: 21 } },
    response: { status: 200, body: { doubled: 42, hash: '472b07b9fcf2c2451e8781e944bf5f77cd8457c8' } },
  },
  {
    workflow: 'Older body',
    request: { body: { number: '21' } },
    response: noResponse,
    exports: { reply: {} },
  },
  {
    workflow: 'No',
    request: { body: { tags: ['a', 'b'] } },
    response: {
      status: 200,
      body: {
        looksLikeOne: '{ "photos": steps.get_photos.$return_value }',
        ...{ answer: 'Yes', version: '1.10', code: '007', day: '2026-11-24' },
        ...{ tags: ['a', 'b'], fixed: ['on', 2], options: { depth: 1 }, flag: true, ratio: 1 },
      },
    },
  },
  {
    workflow: 'Stamp',
    request: { path: '/gate/2?from=till', body: { kind: 'fern', at: '2026-11-24T23:30:00Z' } },
    response: {
      status: 202,
      body: { id: /^fern-1\d{12}$/, day: '2026-11-24', path: '/gate/2?till', zone: 'Europe/Berlin' },
    },
  },
  {
    workflow: 'Early exit: nothing more',
    request: { body: { mode: 'now' } },
    response: noResponse,
    exports: { gate: {}, last_words: {} },
  },
  {
    workflow: 'Early exit: nothing more',
    request: { body: { mode: 'later' } },
    response: noResponse,
    exports: { gate: { $return_value: 'passed the gate' }, last_words: {} },
  },
  {
    workflow: 'Early exit: nothing more',
    request: { body: { mode: 'answered' } },
    response: { status: 204, body: '' },
  },
  {
    workflow: 'Early exit: nothing more',
    request: { body: { mode: 'none' } },
    response: { status: 200, body: 'passed the gate' },
  },
  {
    workflow: 'Respond now',
    request: { body: { parcel: 'p/1' } },
    response: { status: 202, body: { accepted: 'p/1' } },
    exports: { deliver: { $return_value: { state: 'taken' } } },
    sent: {
      method: 'PUT',
      url: '/parcels/p%2F1',
      headers: { 'x-key': 'key-of-beacon' },
      body: '{"state":"on its way"}',
    },
  },
  {
    workflow: 'Water plan',
    request: { body: { plants: ['fern', 'moss'] } },
    response: {
      status: 200,
      body: { title: 'Water For Today', total: 1, per_plant: ['fern: 0.5', 'moss: 0.5'] },
    },
  },
  {
    workflow: 'Catalog search',
    request: { path: '?q=fern' },
    response: { status: 200, body: [{ name: 'Boston fern' }] },
    sent: {
      method: 'GET',
      url: '/catalog/v1?q=fern',
      headers: { 'x-catalog-key': 'key-of-catalog' },
      body: '',
    },
  },
  {
    workflow: 'Weekly numbers',
    request: { body: { numbers: [1, 2, 3.5] } },
    response: { status: 200, body: { start: 'Monday', sum: 6.5 } },
  },
];

/** What the requests of the workflows are answered, by the beginning of their URL. */
export const worldAnswers: readonly [start: string, answer: (body: string) => unknown][] = [
  ['/orders', (body) => ({ accepted: JSON.parse(body).amount < 1000, number: 77 })],
  ['/stock/fern', () => ({ left: 4 })],
  ['/notes', () => ({ id: 'n-1' })],
  ['/parcels/', () => ({ state: 'taken' })],
  ['/catalog/v1', () => [{ name: 'Boston fern' }]],
];

/** Events of workflows that no request starts, and the exports of their steps; worked out by hand from their code. */
export const testEvents: readonly [workflow: string, event: unknown, exports: Record<string, unknown>][] = [
  // Five days are kept; records of seven and thirty days are older.
  ['Clean up', { timestamp: 1_800_000_000 }, { sort_out: { $return_value: [7, 30] } }],
  ['feed_watch', { title: 'Frost warning tonight' }, { headline: { words: 3, $return_value: 'Frost warn' } }],
  ['feed_watch', {}, { headline: { words: 1, $return_value: 'untitled' } }],
];
