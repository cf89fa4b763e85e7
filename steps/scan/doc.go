// Package scan reads the desired state of modules from its sources: the directories of modules, the registry of
// addons, and the ConfigMap. A scan reads all directories again, and replaces the result of the previous scan.
package scan
