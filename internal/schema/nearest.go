package schema

// Nearest returns the known word that is most similar to word, or "" if no known word is similar.
func Nearest(word string, known []string) string {
	best, distance := "", max(1, min(3, len(word)/3))+1
	for _, k := range known {
		if d := edits(word, k, distance); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// edits returns the minimum number of edits that change a into b. An edit inserts, removes or replaces a letter, or
// swaps two adjacent letters. If limit or more edits are necessary, edits returns limit.
func edits(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if max(len(x)-len(y), len(y)-len(x)) >= limit {
		return limit
	}
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range x {
		older, last, row := rows[0], rows[1], rows[2]
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		rows = [3][]int{last, row, older}
	}
	return min(limit, rows[1][len(y)])
}
