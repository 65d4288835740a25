import { type RefObject, useEffect, useRef } from 'react';

/** Scrolls what was just opened into view, and again when its content has come: it may begin below the fold. */
export function useInView<Shown extends Element>(content: unknown = undefined): RefObject<Shown | null> {
  const shown = useRef<Shown>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new content makes it larger.
  useEffect(() => {
    // Newer browsers return a promise, which React would take for the function that ends the effect.
    void shown.current?.scrollIntoView({ block: 'nearest' });
  }, [content]);
  return shown;
}
