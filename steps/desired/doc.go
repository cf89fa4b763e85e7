// Package desired reads the desired state of modules: their directories on disk, their values and
// enabled flags, and the ConfigMap. The data of the directories comes from the last scan.
package desired
