#include "base/nearest.h"

#include <string.h>

enum { LETTERS = 40 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t nearest_distance(const char *a, const char *b)
{
	size_t rows[LETTERS + 1][LETTERS + 1]; /* of the first i letters of a and j of b */
	size_t m = strnlen(a, LETTERS), n = strnlen(b, LETTERS);
	for (size_t i = 0; i <= m; i++)
		for (size_t j = 0; j <= n; j++) {
			if (!i || !j) {
				rows[i][j] = i + j;
				continue;
			}
			size_t change = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			rows[i][j] = least(change, least(rows[i - 1][j], rows[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				rows[i][j] = least(rows[i][j], rows[i - 2][j - 2] + 1);
		}
	return rows[m][n];
}

bool nearest_better(const char *word, const char *known, size_t *best)
{
	size_t distance = nearest_distance(word, known);
	if (distance >= *best || distance > strlen(known) / 2)
		return false;
	*best = distance;
	return true;
}
