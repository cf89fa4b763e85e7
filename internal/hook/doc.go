// Package hook handles hooks as executables: it finds them, reads their configs, encodes their
// binding contexts, runs them and parses their output. It follows the addon-operator HOOKS and
// shell-operator BINDING_CONTEXT documents.
//
// Its types, in the order of their use:
//
//   - [File]: an executable below a hooks directory; [Find] lists them.
//   - [Config]: the output of a hook for `--config`, parsed leniently and validated strictly, with
//     defaults. It contains the hook's bindings: ordered ones such as beforeHelm, [ScheduleBinding]
//     and [KubernetesBinding].
//   - [Element]: one entry of the binding context, the JSON array that tells a run why it was started.
//   - [Runner]: starts hooks and `enabled` scripts; it takes a [Run] and returns a [Result].
//   - [ExitError] and [ErrInterrupted]: the two kinds of failure of a started hook.
//   - leftover: a process that an earlier, killed operator started; [KillLeftovers] kills them.
//
// The package keeps no state between runs. The caller interprets a result and decides when a hook runs
// again.
package hook
