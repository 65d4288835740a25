import { expected } from './object-reader.ts';
import {
  endsInLiteralDomain,
  isLoopbackHost,
  placeholder,
  splitUrlTemplate,
  templateFields,
} from './url-template.ts';

/** The fields that a template may use, by name. */
export type KnownFields = ReadonlyMap<string, 'good' | 'may be missing'>;

/** Throws CallerError `invalid_parameter` naming the place: an unknown field, or one that an account need not have. */
export function checkTemplate(template: string, place: string, known: KnownFields): string {
  if (template.replace(placeholder, '').match(/\{\{[^{}]*\}\}/) !== null) {
    throw expected(place, 'placeholders of the form {{field}}');
  }
  for (const field of templateFields(template)) {
    const state = known.get(field);
    if (state === undefined) {
      const names = known.size === 0 ? 'none are known here' : `known here: ${[...known.keys()].join(', ')}`;
      throw expected(place, `placeholders of known fields, found {{${field}}}; ${names}`);
    }
    if (state === 'may be missing') {
      throw expected(place, `a field that is required or has a default, found {{${field}}}`);
    }
  }
  return template;
}

/**
 * As `checkTemplate`, for a URL: https, or http on this machine. `literalDomain`: no field may say where the request
 * goes; at most it is a sub-domain.
 */
export function checkUrlTemplate(
  template: string,
  place: string,
  known: KnownFields,
  options: { literalDomain: boolean },
): string {
  const parts = splitUrlTemplate(template);
  if (parts === undefined) throw expected(place, 'an https URL');
  checkTemplate(template, place, known);
  if (parts.form === 'base') {
    if (options.literalDomain) throw literalDomainExpected(place);
    return template;
  }
  if (parts.scheme === 'http://' && !isLoopbackHost(parts.host)) throw expected(place, 'an https URL');
  if (options.literalDomain && !endsInLiteralDomain(parts.host)) throw literalDomainExpected(place);
  if (!URL.canParse(template.replace(placeholder, '1'))) throw expected(place, 'an https URL');
  return template;
}

/** What an account's owner types must not decide who is sent the client secret. */
function literalDomainExpected(place: string) {
  return expected(place, 'a host that ends in a fixed domain, such as {{shop}}.example.com');
}
