import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
/** Where `npm run dashboard` finds the service whose API the pages use. */
const service = process.env.MILLRACE_PUBLIC_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  root,
  plugins: [react()],
  resolve: { alias: { '~': `${root}src` } },
  cacheDir: `${root}../node_modules/.cache/vite`,
  build: {
    target: 'es2023',
    // Nothing is inlined: the pages' policy has no place for data that runs, and a hashed file is kept for ever.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    emptyOutDir: true,
    // What it all comes to is checked by a test.
    chunkSizeWarningLimit: 2_000,
  },
  server: {
    host: '127.0.0.1',
    // The pages, the client with which they ask the API, and the examples that they offer; packages are served from the cache.
    fs: {
      allow: ['.', '../sdk/src', '../examples'].map((folder) =>
        fileURLToPath(new URL(folder, import.meta.url)),
      ),
    },
    proxy: { '/v1': service, '/openapi.json': service, '/docs': service },
  },
});
