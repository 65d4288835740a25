import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** The first has the same engine without the program around it: it starts and draws with less than half of the work. */
const names = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
];

/** The Chromium of this machine: that of MILLRACE_TEST_CHROMIUM, else the first of these names that is in a folder of the path. */
function chromiumFile(): string | undefined {
  const named = process.env.MILLRACE_TEST_CHROMIUM;
  if (named !== undefined && named !== '') return named;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((file) => existsSync(file));
}

/** For `skip`: false where there is a browser, or where there has to be one; else why the tests are left out. */
export function chromiumSkip(): string | false {
  if (chromiumFile() !== undefined || process.env.MILLRACE_TEST_REQUIRE_CHROMIUM === '1') return false;
  return 'no Chromium was found: install the package chromium-headless-shell or chromium, or name one in MILLRACE_TEST_CHROMIUM';
}

/** A real browser without a window. Who opens it closes it. */
export async function openChromium(): Promise<Browser> {
  const executablePath = chromiumFile();
  if (executablePath === undefined) throw new Error(`no Chromium was found among ${names.join(', ')}`);
  return chromium.launch({
    executablePath,
    args: [
      // Containers give it neither a sandbox of its own nor much shared memory. It opens our pages only.
      '--no-sandbox',
      '--disable-dev-shm-usage',
      // It draws without a graphics card, which needs no process of its own.
      '--disable-gpu',
      '--in-process-gpu',
      // No page of a test lives long enough to earn what it costs to optimize its scripts.
      '--js-flags=--no-opt --no-maglev',
    ],
  });
}
