// Package registry stores the addons of configurations. Each scope, which is the cluster or one
// namespace, has a registry of its own. In a registry, each ID belongs to one addon, and so does
// each pair of name and version.
//
// A round is one attempt to process a configuration. [Begin] starts it. Its results are stored as
// repositories are read, and [Register] or [Reject] ends it. Until then, the addons of the previous
// round remain registered.
//
// Each distinct content of an archive is stored once, and so is each distinct chart. Rounds and
// modules are the holders of contents. A content is deleted with its last holder.
package registry
