// Package scan reads the state that modules shall have from its sources: the directories of modules, the
// registry of addons, and the ConfigMap. A scan replaces what was read of the directories before.
package scan
