// Package api declares the Go types of the custom resources AddonsConfiguration and ClusterAddonsConfiguration, and
// the reasons and messages in their status. The CustomResourceDefinitions are in deploy/.
package api
