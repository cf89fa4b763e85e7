// Package hook knows hooks as executables: where they lie, what they ask for, what they are told, how they are run and
// what they answer. It follows the addon-operator HOOKS and shell-operator BINDING_CONTEXT documents.
//
// Its nouns, in the order a hook meets them:
//
//   - [File]: an executable below a hooks directory; [Find] lists them.
//   - [Config]: what the hook prints for `--config`, read leniently, checked strictly, defaults filled in. It holds the
//     hook's bindings: ordered ones such as beforeHelm, [ScheduleBinding] and [KubernetesBinding].
//   - [Element]: one entry of the binding context, the JSON array that tells a run why it was started.
//   - [Runner]: starts hooks and `enabled` scripts; a [Run] goes in, a [Result] comes out.
//   - [ExitError] and [ErrInterrupted]: the two ways in which a started hook does not succeed.
//   - leftover: a process an earlier, killed operator started; [KillLeftovers] ends them.
//
// The package returns values and keeps nothing: who calls it decides what a result means, and when a hook runs again.
package hook
