#include "plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "combine.h"
#include "fields.h"
#include "report.h"

void mistake(struct reader *reader, size_t line, const char *field, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%zu: %s%s", reader->path, line, field, *field ? ": " : "");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	reader->mistakes++;
}

static size_t line_of(const yaml_node_t *node)
{
	return node->start_mark.line + 1;
}

static const char *text_of(const yaml_node_t *node)
{
	switch (node->type) {
	case YAML_SCALAR_NODE: return (const char *)node->data.scalar.value;
	case YAML_SEQUENCE_NODE: return "a list";
	case YAML_MAPPING_NODE: return "a mapping";
	default: return "nothing";
	}
}

static bool said(const yaml_node_t *key, const char *name)
{
	return key->type == YAML_SCALAR_NODE && !strcmp(text_of(key), name);
}

static void suggest(const char *found, const char *const *names, unsigned count, char *text, size_t room)
{
	const char *nearest = nearest_name(found, names, count);

	*text = 0;
	if (nearest)
		snprintf(text, room, "; did you mean '%s'?", nearest);
}

/* fields ------------------------------------------------------------------------------------------------- */

static void read_choice(struct reader *reader, const struct field *field, struct choices *choices,
			const yaml_node_t *node)
{
	uint64_t value;

	if (choices->count == MAX_CHOICES) {
		mistake(reader, line_of(node), field->name, "found more than %d, expected fewer", MAX_CHOICES);
	} else if (node->type == YAML_SCALAR_NODE && field_value(field, text_of(node), &value)) {
		choices->values[choices->count++] = value;
	} else {
		char expected[300], hint[100] = "";

		field_expects(field, expected, sizeof expected);
		if (field->kind == NAME)
			suggest(text_of(node), field->names, (unsigned)field->most + 1, hint, sizeof hint);
		mistake(reader, line_of(node), field->name, "found '%s', expected %s%s", text_of(node), expected, hint);
	}
}

static void read_field(struct reader *reader, enum field_index index, struct choices *all, const yaml_node_t *node)
{
	const struct field *field = &fields[index];
	struct choices *choices = &all[index];

	if (choices->line) {
		mistake(reader, line_of(node), field->name, "found a second time (first on line %zu), expected once",
			choices->line);
		return;
	}
	choices->line = line_of(node);
	if (node->type != YAML_SEQUENCE_NODE) {
		read_choice(reader, field, choices, node);
		return;
	}
	if (!field->many) {
		mistake(reader, choices->line, field->name, "found a list, expected one value");
		return;
	}
	for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
		read_choice(reader, field, choices, yaml_document_get_node(reader->document, *item));
	if (node->data.sequence.items.start == node->data.sequence.items.top)
		mistake(reader, choices->line, field->name, "found an empty list, expected one value or more");
}

static void read_id(struct reader *reader, const yaml_node_t *node, char *id)
{
	const char *text = text_of(node);
	bool good = node->type == YAML_SCALAR_NODE && *text && strlen(text) < MAX_ID;

	for (const char *c = text; good && *c; c++)
		good = islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '-';
	for (unsigned i = 0; good && i < reader->plan->count; i++)
		if (!strcmp(text, reader->plan->measurements[i].id)) {
			mistake(reader, line_of(node), "id", "found '%s' a second time, expected another name", text);
			break;
		}
	if (good)
		strcpy(id, text);
	else
		mistake(reader, line_of(node), "id",
			"found '%s', expected a name of at most %d small letters, digits and '-'", text, MAX_ID - 1);
}

/* the document ------------------------------------------------------------------------------------------- */

static void read_measurement(struct reader *reader, const yaml_node_t *node)
{
	struct choices all[FIELDS] = {0};
	char id[MAX_ID] = "";
	const char *names[FIELDS + 1] = {"id"};
	unsigned before = reader->mistakes;
	bool has_id = false;

	for (unsigned f = 0; f < FIELDS; f++)
		names[f + 1] = fields[f].name;
	reader->first_line = line_of(node);
	if (node->type != YAML_MAPPING_NODE) {
		mistake(reader, line_of(node), "measurements", "found '%s', expected a mapping with id, verb and sizes",
			text_of(node));
		return;
	}
	for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
		unsigned f = 0;

		while (f < FIELDS && !said(key, fields[f].name))
			f++;
		if (said(key, "id") && has_id) {
			mistake(reader, line_of(key), "id", "found a second time, expected once");
		} else if (said(key, "id")) {
			has_id = true;
			read_id(reader, value, id);
		} else if (f < FIELDS) {
			read_field(reader, (enum field_index)f, all, value);
		} else {
			char hint[100];

			suggest(text_of(key), names, FIELDS + 1, hint, sizeof hint);
			mistake(reader, line_of(key), text_of(key), "found a field that is not known, expected id, "
				"verb, sizes, transport or another of a measurement%s", hint);
		}
	}
	if (!has_id)
		mistake(reader, line_of(node), "id", "found nothing, expected a name for this measurement");
	if (reader->mistakes != before && !all[F_VERB].count)
		return; /* what else is wrong depends on the verb */
	complete(reader, all);
	if (reader->mistakes == before)
		add_combinations(reader, id, all);
}

static void read_measurements(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE || node->data.sequence.items.start == node->data.sequence.items.top) {
		mistake(reader, line_of(node), "measurements", "found '%s', expected a list of measurements",
			node->type == YAML_SEQUENCE_NODE ? "[]" : text_of(node));
		return;
	}
	for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
		read_measurement(reader, yaml_document_get_node(reader->document, *item));
}

static void read_document(struct reader *reader)
{
	static const char *const names[] = {"plan", "title", "measurements"};
	const yaml_node_t *root = yaml_document_get_root_node(reader->document);
	bool seen[3] = {false};

	if (!root || root->type != YAML_MAPPING_NODE) {
		mistake(reader, 1, "", "found %s, expected a plan: fields plan, title and measurements",
			root ? text_of(root) : "an empty file");
		return;
	}
	for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
		unsigned i = 0;

		while (i < 3 && !said(key, names[i]))
			i++;
		if (i == 3) {
			char hint[100];

			suggest(text_of(key), names, 3, hint, sizeof hint);
			mistake(reader, line_of(key), text_of(key), "found a field that is not known, expected plan, "
				"title or measurements%s", hint);
			continue;
		}
		if (seen[i])
			mistake(reader, line_of(key), names[i], "found a second time, expected once");
		else if (i == 2)
			read_measurements(reader, value);
		else if (value->type != YAML_SCALAR_NODE || !*text_of(value))
			mistake(reader, line_of(value), names[i], "found '%s', expected a text", text_of(value));
		else if (i == 0)
			snprintf(reader->plan->name, MAX_ID, "%s", text_of(value));
		seen[i] = true;
	}
	for (unsigned i = 0; i < 3; i += 2)
		if (!seen[i])
			mistake(reader, 1, names[i], "found nothing, expected %s",
				i ? "a list of measurements" : "a name");
}

unsigned plan_read(const char *path, struct plan *plan)
{
	yaml_document_t document;
	yaml_parser_t parser;
	struct reader reader = {.path = path, .document = &document, .plan = plan};
	FILE *file = fopen(path, "r");

	*plan = (struct plan){0};
	if (!file) {
		fprintf(stderr, "%s: cannot be read: %s\n", path, strerror(errno));
		return 1;
	}
	if (!yaml_parser_initialize(&parser))
		stop("out of memory");
	yaml_parser_set_input_file(&parser, file);
	if (yaml_parser_load(&parser, &document)) {
		read_document(&reader);
		yaml_document_delete(&document);
	} else {
		mistake(&reader, parser.problem_mark.line + 1, "", "found no valid YAML, expected a plan: %s",
			parser.problem ? parser.problem : "cannot be read");
	}
	yaml_parser_delete(&parser);
	fclose(file);
	return reader.mistakes;
}

void plan_free(struct plan *plan)
{
	free(plan->measurements);
	plan->measurements = NULL;
}
