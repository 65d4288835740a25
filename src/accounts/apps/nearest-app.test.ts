import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nearestApp } from './nearest-app.ts';

const apps = [
  { slug: 'aws', name: 'AWS' },
  { slug: 'box', name: 'Box' },
  { slug: 'github', name: 'GitHub' },
  { slug: 'gitlab', name: 'GitLab' },
  { slug: 'google_sheets', name: 'Google Sheets' },
  { slug: 'openai', name: 'OpenAI' },
  { slug: 'salesforce_rest_api', name: 'Salesforce' },
];

test('an unknown slug is matched to the nearest app, or to none', () => {
  for (const [written, nearest] of [
    ['githb', 'github'],
    ['GitHub', 'github'],
    ['gtilab', 'gitlab'],
    ['openia', 'openai'],
    ['google-sheets', 'google_sheets'],
    ['Google Sheets', 'google_sheets'],
    ['gogle_shets', 'google_sheets'],
    ['salesforce', 'salesforce_rest_api'],
    ['bx', undefined],
    ['git', undefined],
    ['acme_vault', undefined],
    ['', undefined],
    ['☃', undefined],
    ['x'.repeat(100_000), undefined],
  ] as const) {
    assert.equal(nearestApp(apps, written), nearest, written.slice(0, 40));
  }
});
