import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './style/theme.css';
import './style/parts.css';
import './style/shell.css';
import './style/pages.css';
import './style/workflows.css';
import './style/accounts.css';
import './style/workspace.css';
import './style/editing.css';
import './style/sources.css';
import './style/imports.css';
import { App } from './app.tsx';

const root = document.getElementById('root');
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
