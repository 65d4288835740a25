import { type RefObject, useEffect, useMemo, useRef } from 'react';
import { boxHeight, boxWidth, type Place } from './layout.ts';

const scaleMin = 0.05;
const scaleMax = 2.5;
/** What is fitted into the window is not made larger than it is. */
const fitMax = 1.1;
const margin = 24;
/** Below this scale, text is unreadable and left out. */
const farBelow = 0.42;
const readFrom = 0.6;
/** A pointer that moves less than this meant to press. */
const dragMinPx = 4;
const wheelStep = 0.0016;

interface Size {
  width: number;
  height: number;
}

export interface PanZoom {
  svg: RefObject<SVGSVGElement | null>;
  group: RefObject<SVGGElement | null>;
  fit(size: Size): void;
  /** True until the user moves or zooms: the whole map is in the window, also after a change of the window's size. */
  isWhole(): boolean;
  /** Factor around the middle. */
  zoom(factor: number): void;
  /** Brings a box into view; `close`: large enough to be read, and in the middle. */
  show(place: Place, close?: boolean): void;
}

/**
 * Pan and zoom by wheel, drag, two fingers. The transform is set on the group itself: React renders nothing again while
 * the user moves the map.
 */
export function usePanZoom(): PanZoom {
  const svg = useRef<SVGSVGElement>(null);
  const group = useRef<SVGGElement>(null);
  const view = useRef({ x: 0, y: 0, scale: 1 });
  /** What was fitted into the window, until the user moves it. */
  const whole = useRef<Size>(undefined);
  const parts = useMemo(() => {
    const apply = () => {
      const { x, y, scale } = view.current;
      group.current?.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
      group.current?.classList.toggle('far', scale < farBelow);
    };
    const size = () => {
      const box = svg.current?.getBoundingClientRect();
      return { width: box?.width ?? 1, height: box?.height ?? 1 };
    };
    const zoomAt = (factor: number, x: number, y: number) => {
      whole.current = undefined;
      const { scale } = view.current;
      const next = Math.min(scaleMax, Math.max(scaleMin, scale * factor));
      view.current = {
        x: x - ((x - view.current.x) * next) / scale,
        y: y - ((y - view.current.y) * next) / scale,
        scale: next,
      };
      apply();
    };
    return {
      apply,
      zoomAt,
      isWhole: () => whole.current !== undefined,
      /** The size of the window has changed. */
      resized(byPx: number) {
        if (whole.current !== undefined) this.fit(whole.current);
        else {
          view.current = { ...view.current, x: view.current.x + byPx / 2 };
          apply();
        }
      },
      move(dx: number, dy: number) {
        whole.current = undefined;
        view.current = { ...view.current, x: view.current.x + dx, y: view.current.y + dy };
        apply();
      },
      fit({ width, height }: Size) {
        whole.current = { width, height };
        const window = size();
        const scale = Math.min(
          fitMax,
          Math.max(
            scaleMin,
            Math.min((window.width - 2 * margin) / width, (window.height - 2 * margin) / height),
          ),
        );
        view.current = {
          x: (window.width - width * scale) / 2,
          y: (window.height - height * scale) / 2,
          scale,
        };
        apply();
      },
      zoom(factor: number) {
        const { width, height } = size();
        zoomAt(factor, width / 2, height / 2);
      },
      show(place: Place, close = false) {
        // Where all of it can be read at once, there is nowhere to go.
        if (whole.current !== undefined && view.current.scale >= readFrom) return;
        whole.current = undefined;
        const { width, height } = size();
        if (close) {
          const scale = Math.max(view.current.scale, 0.9);
          view.current = {
            x: width / 2 - (place.x + boxWidth / 2) * scale,
            y: height / 2 - (place.y + boxHeight / 2) * scale,
            scale,
          };
        } else {
          const { x, y, scale } = view.current;
          const into = (at: number, length: number, room: number) =>
            Math.max(margin - at, 0) + Math.min(room - margin - (at + length), 0);
          view.current = {
            x: x + into(x + place.x * scale, boxWidth * scale, width),
            y: y + into(y + place.y * scale, boxHeight * scale, height),
            scale,
          };
        }
        apply();
      },
    };
  }, []);
  useEffect(() => {
    const element = svg.current;
    if (element === null) return;
    const stop = listen(element, parts);
    let { width } = element.getBoundingClientRect();
    const sizes = new ResizeObserver(() => {
      const now = element.getBoundingClientRect().width;
      parts.resized(now - width);
      width = now;
    });
    sizes.observe(element);
    return () => {
      stop();
      sizes.disconnect();
    };
  }, [parts]);
  return useMemo(() => {
    const { fit, isWhole, zoom, show } = parts;
    return { svg, group, fit, isWhole, zoom, show };
  }, [parts]);
}

/** Returns a function that stops listening. Not by React: its wheel listeners cannot keep the page from scrolling. */
function listen(
  element: SVGSVGElement,
  {
    zoomAt,
    move,
  }: { zoomAt(factor: number, x: number, y: number): void; move(dx: number, dy: number): void },
): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const { x, y } = at(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoomAt(Math.exp(-event.deltaY * lines * wheelStep * (event.ctrlKey ? 4 : 1)), x, y);
  };
  const onDown = (event: PointerEvent) => {
    if (event.pointerType === 'mouse' && event.button !== 0) return;
    if (pointers.size === 0) moved = 0;
    pointers.set(event.pointerId, at(event));
  };
  const onMove = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = at(event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    if (other !== undefined) {
      const distance = (one: { x: number; y: number }) => Math.hypot(one.x - other.x, one.y - other.y);
      zoomAt(distance(now) / Math.max(1, distance(before)), (now.x + other.x) / 2, (now.y + other.y) / 2);
      move((now.x - before.x) / 2, (now.y - before.y) / 2);
      moved = dragMinPx;
      return;
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (moved < dragMinPx) return;
    // From here on it is a drag, also outside of the map.
    if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
    move(now.x - before.x, now.y - before.y);
  };
  const onUp = (event: PointerEvent) => {
    pointers.delete(event.pointerId);
  };
  const onClick = (event: MouseEvent) => {
    // What ends a drag is no press of what is below.
    if (moved >= dragMinPx && event.detail > 0) event.stopPropagation();
  };
  element.addEventListener('wheel', onWheel, { passive: false });
  element.addEventListener('pointerdown', onDown);
  element.addEventListener('pointermove', onMove);
  element.addEventListener('pointerup', onUp);
  element.addEventListener('pointercancel', onUp);
  element.addEventListener('click', onClick, { capture: true });
  return () => {
    element.removeEventListener('wheel', onWheel);
    element.removeEventListener('pointerdown', onDown);
    element.removeEventListener('pointermove', onMove);
    element.removeEventListener('pointerup', onUp);
    element.removeEventListener('pointercancel', onUp);
    element.removeEventListener('click', onClick, { capture: true });
  };
}
