import { useEffect, useState } from 'react';

const charactersMax = 1_000_000;

function keyOf(id: string): string {
  return `millrace.code.${id}`;
}

function keptCode(id: string): { code: string; base: string } | undefined {
  try {
    const text = sessionStorage.getItem(keyOf(id));
    return text === null ? undefined : (JSON.parse(text) as { code: string; base: string });
  } catch {
    return undefined;
  }
}

/**
 * Code that is being changed, kept by the tab until it is saved, also when the page is left. `base`: what it was made from,
 * by its id; `saved`: the code of that.
 */
export function useKeptCode(id: string, base: string, saved: string) {
  const [kept] = useState(() => keptCode(id));
  const [code, setCode] = useState(kept?.code ?? saved);
  const [from, setFrom] = useState(kept?.base ?? base);
  const isChanged = code !== saved;
  useEffect(() => {
    try {
      if (!isChanged) sessionStorage.removeItem(keyOf(id));
      else if (code.length <= charactersMax)
        sessionStorage.setItem(keyOf(id), JSON.stringify({ code, base: from }));
    } catch {
      // Storage is switched off: then it holds until the page is left.
    }
  }, [id, code, from, isChanged]);
  useEffect(() => {
    if (!isChanged) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, [isChanged]);
  return {
    code,
    setCode,
    isChanged,
    /** It was made from another version than the present one. */
    isOld: isChanged && from !== base,
    /** Bases the draft on the present version: unchanged, or with that code. */
    follow: (next: { base: string; code?: string }) => {
      setFrom(next.base);
      if (next.code !== undefined) setCode(next.code);
    },
  };
}
