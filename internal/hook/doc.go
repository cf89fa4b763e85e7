// Package hook finds hook executables, reads their configs, encodes their binding contexts, runs them and parses their
// output. It implements the documents HOOKS of flant/addon-operator and BINDING_CONTEXT of flant/shell-operator.
//
// Its main types and terms, in the order of their use:
//
//   - [File]: a hook on disk, which is an executable file in a directory of hooks. [Find] lists the hooks.
//   - [Config]: what a hook prints for `--config`, after validation and with defaults. It contains the bindings of the
//     hook: ordered bindings such as beforeHelm, [ScheduleBinding], [KubernetesBinding], and others.
//   - [Element]: one element of the binding context. The binding context is a JSON array that tells a hook why it
//     runs.
//   - [Runner]: runs hooks and `enabled` scripts. Its method Run executes a [Run] and returns a [Result].
//   - [ExitError], [ErrTimeout] and [ErrInterrupted]: the errors of a run that has failed, has reached its timeout, or
//     was interrupted.
//   - leftover: a process of a hook, such as a child process, that still runs although the operator process that
//     started the hook has ended. [KillLeftovers] kills leftovers.
//
// The package keeps no state between runs. The caller decides what a result means, and when a hook runs again.
package hook
