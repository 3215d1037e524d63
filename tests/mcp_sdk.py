"""The official Python client, with all that a server may ask of it."""

import asyncio


async def python_client(target, mode):
    import mcp
    import mcp.types as types

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"username": "u", "email": "e"})

    steps = []

    async def progress(done, total, message):
        if total:  # the elapsed seconds that the server reports have none
            steps.append(done)

    async with mcp.Client(target, mode=mode, elicitation_callback=elicit) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        text = (await client.call_tool("test_simple_text", {})).content[0].text
        await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
        bash = (await client.call_tool("sandbox_execute_bash", {"command": "echo py"})).structured_content
        resource = (await client.read_resource("test://static-text")).contents[0].text
        prompt = (await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})).messages[0].content.text
        many = await asyncio.gather(*(client.call_tool("test_simple_text", {}) for _ in range(20)))
        if mode == "legacy":
            asked = (await client.call_tool("test_elicitation", {"message": "m"})).content[0].text
        else:
            asked = (await client.call_tool("test_input_required_result_multi_round", {})).content[0].text
        return dict(tools=tools, text=text, steps=steps, bash=bash, resource=resource, prompt=prompt, many=len(many),
                    asked=asked, version=client.protocol_version)
