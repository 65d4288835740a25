import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { msUntil } from './delay-duration.ts';

let actions: ActionFixture;
before(async () => {
  actions = await startActionFixture();
});
after(() => actions?.close());

const urls = {
  resume_url: 'https://example.com/in/resume',
  cancel_url: 'https://example.com/in/cancel',
};

const durations: [value: unknown, unit: string, ms: number][] = [
  [250, 'Milliseconds', 250],
  ['90', 'Seconds', 90_000],
  [15, 'Minutes', 900_000],
  [2, 'Hours', 7_200_000],
  [3, 'Days', 259_200_000],
  [52, 'Weeks', 31_449_600_000],
];
for (const [delayDurationValue, delayDurationUnit, ms] of durations) {
  test(`waits for ${delayDurationValue} ${delayDurationUnit}`, async () => {
    const outcome = await actions.run('delay-workflow-delay', { delayDurationValue, delayDurationUnit });
    assert.deepEqual(outcome.flow, { kind: 'delay', ms });
    assert.deepEqual(outcome.ret, urls);
    assert.equal(
      outcome.exports.$summary,
      `Waits for ${delayDurationValue} ${delayDurationUnit.toLowerCase()}`,
    );
  });
}

test('suspends for a day, or for as long as it is told', async () => {
  const day = await actions.run('delay-suspend-workflow');
  assert.deepEqual([day.flow, day.ret], [{ kind: 'suspend', ms: 86_400_000 }, urls]);
  const shorter = await actions.run('delay-suspend-workflow', {
    delayDurationValue: 5,
    delayDurationUnit: 'Minutes',
  });
  assert.deepEqual(shorter.flow, { kind: 'suspend', ms: 300_000 });
});

test('waits until a time, and not at all for one that has passed', async () => {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const ahead = await actions.run('delay-until', { until });
  assert.ok(ahead.flow?.kind === 'delay' && ahead.flow.ms <= 3_600_000 && ahead.flow.ms > 3_000_000);
  assert.deepEqual(ahead.ret, urls);
  const passed = await actions.run('delay-until', { until: '2020-01-01T00:00:00Z' });
  assert.deepEqual([passed.flow, passed.ret, passed.error], [undefined, null, undefined]);
  assert.equal(passed.exports.$summary, 'Did not wait: 2020-01-01T00:00:00Z has passed');
});

const nowMs = Date.parse('2027-01-01T00:00:00Z');
const times: [time: unknown, timezone: string, ms: number][] = [
  ['2027-01-01T01:00:00Z', 'UTC', 3_600_000],
  ['2027-01-01T03:00:00+01:00', 'America/New_York', 7_200_000],
  ['2027-01-01T03:00:00', 'Europe/Berlin', 7_200_000],
  ['2027-01-02', 'UTC', 86_400_000],
  [nowMs + 5, 'UTC', 5],
  [String(nowMs + 5), 'UTC', 5],
  ['2026-12-31T23:00:00Z', 'UTC', 0],
];
for (const [time, timezone, ms] of times) {
  test(`${JSON.stringify(time)} in ${timezone} is ${ms} ms ahead`, () => {
    assert.equal(msUntil(time, timezone, nowMs), ms);
  });
}

const mistakes: [key: string, props: Record<string, unknown>, message: RegExp][] = [
  [
    'delay-workflow-delay',
    { delayDurationValue: 'soon', delayDurationUnit: 'Days' },
    /^delayDurationValue: found "soon", expected a number from 1 millisecond to 365 days$/,
  ],
  [
    'delay-workflow-delay',
    { delayDurationValue: 0, delayDurationUnit: 'Days' },
    /^delayDurationValue: found 0/,
  ],
  [
    'delay-workflow-delay',
    { delayDurationValue: 53, delayDurationUnit: 'Weeks' },
    /^delayDurationValue: found 53/,
  ],
  [
    'delay-workflow-delay',
    { delayDurationValue: 1, delayDurationUnit: 'Years' },
    /^delayDurationUnit: found "Years", expected one of Milliseconds, Seconds/,
  ],
  ['delay-until', { until: 'tomorrow' }, /^until: found "tomorrow", expected a date with time such as/],
  ['delay-until', { until: '2999-01-01T00:00:00Z' }, /expected a time within the next 365 days$/],
  [
    'delay-until',
    { until: '2027-01-01T00:00:00', timezone: 'Mars/Base' },
    /^timezone: found "Mars\/Base", expected the name of a time zone/,
  ],
];
for (const [key, props, message] of mistakes) {
  test(`${key} says what is wrong with ${JSON.stringify(props)}`, async () => {
    const { error, flow } = await actions.run(key, props);
    assert.equal(error?.name, 'ConfigurationError');
    assert.match(error?.message ?? '', message);
    assert.equal(flow, undefined);
  });
}
