'use strict';
// ACTIONS_RUNNER_HOOK_JOB_STARTED of a self-hosted runner: starts the agent beside each job. README.md says how to set it up.
//
// It runs as the runner's user, outside of a job's container. So nothing that a container can write is read, run or trusted: neither HOME,
// PATH and TMPDIR of the environment, nor the workspace, nor the runner's temporary folder. The agent is the file `plimsoll` beside this one.
const fs = require('fs');
const os = require('os');
const path = require('path');
const { guarded, runner, runs, say, servers, signal, start, stat } = require('./job');

guarded(30, async () => {
  if (process.env.PLIMSOLL_MEASURE === 'off') return;
  if (!servers().length) throw new Error('PLIMSOLL_SERVER names no server');
  const program = path.join(__dirname, 'plimsoll');
  if (!fs.existsSync(program)) throw new Error(`there is no agent ${program}`);
  const pid = runner();
  const home = os.userInfo().homedir;
  const jobs = path.join(home, '.plimsoll', 'jobs');
  fs.mkdirSync(jobs, { recursive: true, mode: 0o700 });
  const own = fs.lstatSync(jobs);
  if (!own.isDirectory() || own.uid !== process.getuid() || (own.mode & 0o777) !== 0o700) {
    throw new Error(`${jobs} is not a folder of this user alone`);
  }
  // jobs that have ended without the other hook
  for (const left of fs.readdirSync(jobs)) {
    const [worker, started] = left.split('-');
    if (!runs(worker, started)) fs.rmSync(path.join(jobs, left), { recursive: true, force: true });
  }
  const dir = path.join(jobs, `${pid}-${stat(pid).started}`);
  fs.mkdirSync(dir, { mode: 0o700 });
  const env = { HOME: home, PLIMSOLL_TOKEN_AUDIENCE: process.env.PLIMSOLL_TOKEN_AUDIENCE || 'plimsoll' };
  let agent = {};
  try {
    agent = await start(dir, program, pid, { words: ['--spool-dir', path.join(home, '.plimsoll', 'spool')], env });
    fs.writeFileSync(path.join(dir, 'agent'), `${agent.pid} ${agent.started}`);
  } catch (error) {
    signal(agent.pid, agent.started, 'SIGKILL');
    fs.rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  say('measures this job');
});
