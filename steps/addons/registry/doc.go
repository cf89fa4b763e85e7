// Package registry stores the addons of configurations. Each scope, which is the cluster or one namespace, has a
// registry of its own. In a registry, each ID belongs to one addon, and each pair of name and version belongs to one
// addon.
//
// A round is one attempt to process a configuration. [Begin] starts a round, and the result of each repository is
// stored as soon as it is read. [Round.Register] or [Reject] ends the round. Until a round ends, the addons of the
// previous round remain registered.
//
// The contents of archives and the charts in them are stored once for each digest. The holders of a content are the
// rounds and the modules that need it. When the last holder of a content releases it, the content is deleted.
package registry
