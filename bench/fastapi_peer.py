"""What the peer answers: GET /v1/sandbox, POST /v1/bash/exec and /v1/file/read as a FastAPI program has them."""
import asyncio
import json
import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, create_model

# What aio answered to the same request; the models are made in its image.
with open(os.environ["BENCH_ANSWER"]) as file:
    answer = json.load(file)


def model(name: str, value: Any) -> Any:
    """The type of a JSON value: a model of an object, a list of its first item's type, a scalar."""
    if isinstance(value, dict):
        fields = {key: (model(f"{name}_{key}", item), ...) for key, item in value.items()}
        return create_model(name, **fields)
    if isinstance(value, list):
        return list[model(name, value[0])] if value else list[Any]
    return Any if value is None else type(value) | None


Answer: type[BaseModel] = model("Answer", answer)
app = FastAPI()


@app.get("/v1/sandbox", response_model=Answer)
async def sandbox() -> Any:
    return answer


class Read(BaseModel):
    file: str
    start_line: int | None = None
    end_line: int | None = None
    sudo: bool | None = False


class ReadResult(BaseModel):
    content: str
    file: str
    line_count: int


class ReadAnswer(BaseModel):
    success: bool = True
    message: str | None = "File read successfully"
    data: ReadResult | None = None
    hint: str | None = None


@app.post("/v1/file/read")
def file_read(request: Read) -> ReadAnswer:
    with open(request.file, encoding="utf-8") as source:
        lines = source.readlines()[request.start_line : request.end_line]
    return ReadAnswer(data=ReadResult(content="".join(lines), file=request.file, line_count=len(lines)))


class Exec(BaseModel):
    command: str


class ExecResult(BaseModel):
    stdout: str
    stderr: str
    exit_code: int | None


@app.post("/v1/bash/exec")
async def bash_exec(request: Exec) -> ExecResult:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("bash", "-c", request.command, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    return ExecResult(stdout=out.decode(), stderr=err.decode(), exit_code=process.returncode)
