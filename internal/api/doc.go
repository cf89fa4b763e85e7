// Package api holds the Go types of the custom resources AddonsConfiguration and
// ClusterAddonsConfiguration, group addons.kyma-project.io, version v1alpha1, and the reasons and
// messages of their status. Their CustomResourceDefinitions are in deploy/.
package api
