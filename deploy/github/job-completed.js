'use strict';
// ACTIONS_RUNNER_HOOK_JOB_COMPLETED of a self-hosted runner: ends the measurement that job-started.js began, and shows the report. The same
// rules hold. The runner tells a hook nothing of how the job ended.
const fs = require('fs');
const os = require('os');
const path = require('path');
const { ended, guarded, runner, show, stat } = require('./job');

guarded(20, async () => {
  const pid = runner();
  const dir = path.join(os.userInfo().homedir, '.plimsoll', 'jobs', `${pid}-${stat(pid).started}`);
  if (!fs.existsSync(path.join(dir, 'agent'))) return;
  try {
    const [agent, started] = fs.readFileSync(path.join(dir, 'agent'), 'utf8').split(' ');
    await ended(dir, Number(agent), started, '');
    show(dir);
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
});
