import './language.ts';

import { render } from 'preact';
import { Console } from './console.tsx';
import { watch } from './live.ts';

// The page of the management server: `/actuator/svc` of each process. All that it shows is text: nothing is ever parsed as HTML.
render(<Console />, document.getElementById('console') as HTMLElement);
watch();
