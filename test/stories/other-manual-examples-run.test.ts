/** Every second page of the manual; the others are in manual-examples-run, which takes as long. */
import { describe } from 'node:test';
import { halfOfPages, testPages, useManualService } from '../support/manual-pages.ts';

describe('the manual', () => testPages(halfOfPages(1), useManualService()));
