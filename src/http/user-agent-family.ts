import Bowser from 'bowser';

/** A header that is longer is cut: it is parsed with many patterns. */
const headerMax = 512;
/** Names that end up in the store. */
const familyMax = 80;

/** `Firefox on Linux`: the family of a browser and its system, without versions; null when neither is known. */
export function userAgentFamily(header: string | undefined): string | null {
  if (header === undefined || header === '') return null;
  const parser = Bowser.getParser(header.slice(0, headerMax));
  const names = [parser.getBrowserName(), parser.getOSName()].filter((name) => name !== '');
  return names.length === 0 ? null : names.join(' on ').slice(0, familyMax);
}
