// Package registry keeps the addons that configurations offer, in the store. Each scope, which is
// the cluster or one namespace, has a registry of its own. In it, an ID belongs to one addon, and so
// does a name with a version.
//
// A round is one attempt to process a configuration. It starts with [Begin]; its results are stored
// as repositories are read, and end with [Register] or [Reject]. Until then, the addons of the
// round before remain registered.
//
// What the archives of addons contain is stored once for each distinct content, and each distinct
// chart once. Rounds and modules hold contents; a content is deleted with its last holder.
package registry
