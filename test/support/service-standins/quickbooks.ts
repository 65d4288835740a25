import type { CertificateAuthority } from '../certificates.ts';
import { bearerOf, queryOf, ServiceStandIn } from './stand-in.ts';

export const quickbooksCompany = '4620816365291273050';

/** QuickBooks' accounting API v3 of one company with one customer. `isValid` knows the access tokens. */
export function startQuickbooks(
  authority: CertificateAuthority,
  isValid: (accessToken: string) => boolean | Promise<boolean>,
): Promise<ServiceStandIn> {
  const customer = {
    Id: '58',
    DisplayName: 'Ada Lovelace',
    MetaData: { CreateTime: '2026-11-20T10:00:00-08:00', LastUpdatedTime: '2026-11-20T10:00:00-08:00' },
  };
  const company = `/v3/company/${quickbooksCompany}`;
  return ServiceStandIn.start(authority, {
    host: 'quickbooks.api.intuit.com',
    isAuthorized: (request) => isValid(bearerOf(request)),
    unauthorized: {
      status: 401,
      body: {
        Fault: { Error: [{ Message: 'message=AuthenticationFailed', code: '3200' }], type: 'AUTHENTICATION' },
      },
    },
    routes: {
      [`GET ${company}/companyinfo/${quickbooksCompany}`]: () => ({
        body: { CompanyInfo: { CompanyName: 'Engines' } },
      }),
      [`GET ${company}/query`]: (request) => ({
        // There is one page: a request for the next one gets an empty list.
        body: {
          QueryResponse: / startposition /.test(queryOf(request).get('query') ?? '')
            ? {}
            : { Customer: [customer] },
        },
      }),
      [`GET ${company}/customer/58`]: () => ({ body: { Customer: customer } }),
    },
  });
}
