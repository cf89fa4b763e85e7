// Package survey finds problems of the module directories and the ConfigMap before a converge meets them.
package survey
