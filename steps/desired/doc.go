// Package desired has the state that modules shall have: their directories on disk, their values and
// enabled flags, and the ConfigMap. All that is read of the directories belongs to one scan.
package desired
