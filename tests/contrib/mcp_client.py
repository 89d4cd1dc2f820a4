"""An agent's client, over stdio; run by the environment with mcp.

``python mcp_client.py FOLDER [--allow edit]`` calls what standard input names (JSON), and prints the answers.
"""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters


async def main():
    folder, *more = sys.argv[1:]
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "unstale", "mcp", "--mirror", f"{folder}/mirror.toml", *more]
    )
    answers = []
    async with Client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        for name, given in json.load(sys.stdin):
            try:
                if name == "resource":
                    (content,) = (await client.read_resource(given)).contents
                    answers.append({"text": content.text})
                    continue
                answer = await client.call_tool(name, given)
            except Exception as error:  # noqa: BLE001  (what the server says is looked at)
                answers.append({"error": str(error)})
                continue
            text = answer.content[0].text
            answers.append({"error": text} if answer.is_error else json.loads(text))
    print(json.dumps({"tools": tools, "answers": answers}))  # noqa: T201


asyncio.run(main())
