// Package hook finds hook executables, reads their configs, encodes their binding contexts, runs
// them and parses their output. It follows the documents HOOKS of addon-operator and
// BINDING_CONTEXT of shell-operator.
//
// Its types, in the order of their use:
//
//   - [File]: an executable below a hooks directory; [Find] lists them.
//   - [Config]: the output of a hook for `--config`, parsed leniently and validated strictly, with
//     defaults. It contains the hook's bindings: ordered ones such as beforeHelm, [ScheduleBinding]
//     and [KubernetesBinding].
//   - [Element]: one entry of the binding context. The binding context is the JSON array that tells
//     a hook why it runs.
//   - [Runner]: runs hooks and `enabled` scripts. Its method Run executes a [Run] and returns a
//     [Result].
//   - [ExitError] and [ErrInterrupted]: the errors of a hook that failed, and of a hook that was
//     interrupted.
//   - leftover: a process that outlived the operator process that started it. [KillLeftovers] kills
//     leftovers.
//
// The package keeps no state between runs. The caller interprets a result and decides when a hook runs
// again.
package hook
