// Package survey finds problems of the module directories and the ConfigMap before the next converge is affected by
// them.
package survey
