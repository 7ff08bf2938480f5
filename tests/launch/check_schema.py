#!/usr/bin/env python3
"""Says of each document whether a JSON Schema of draft 7 accepts it.

    check_schema.py SCHEMA.json DOCUMENTS.json

DOCUMENTS.json is a list; the output is one line each, "accepted" or the first reason against it.
"""
import json
import sys

import jsonschema


def main():
    schema = json.load(open(sys.argv[1]))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    for document in json.load(open(sys.argv[2])):
        errors = sorted(validator.iter_errors(document), key=str)
        print(errors[0].message.replace("\n", " ")[:300] if errors else "accepted")


main()
