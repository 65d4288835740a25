import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

function chromiumFile(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((file) => existsSync(file));
}

/** Why tests in a real browser cannot run here, or false. */
export function chromiumSkip(): string | false {
  return chromiumFile() === undefined ? 'there is no Chromium on this machine' : false;
}

/** A browser without a window that shows this page, until the end of the `await using`. It keeps everything in `folder`. */
export function openPage(url: string, folder: string): AsyncDisposable & { output: () => string } {
  const options = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--disable-background-networking',
    '--no-first-run',
    `--user-data-dir=${folder}`,
    '--enable-logging=stderr',
  ];
  // A group of its own: its helpers end with it.
  const browser: ChildProcess = spawn(chromiumFile() ?? '', [...options, url], { detached: true });
  let output = '';
  browser.stderr?.on('data', (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-10_000);
  });
  const exited = once(browser, 'exit');
  return {
    output: () => output,
    async [Symbol.asyncDispose]() {
      if (browser.pid !== undefined && browser.exitCode === null) process.kill(-browser.pid, 'SIGKILL');
      await exited;
    },
  };
}
