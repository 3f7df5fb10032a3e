import './language.ts';

import { render } from 'preact';
import { Console } from './console.tsx';
import { watch } from './live.ts';

// The console of the management server: `/actuator/svc` of each process. It shows text only: nothing is parsed as HTML.
render(<Console />, document.getElementById('console') as HTMLElement);
watch();
